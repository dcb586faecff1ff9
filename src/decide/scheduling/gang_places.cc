#include "decide/scheduling/gang_places.h"

#include <algorithm>
#include <tuple>

#include "decide/scheduling/gang_devices.h"
#include "decide/scheduling/hung_sandboxes.h"

namespace lambent::scheduling {

// ---- Warm

std::optional<Place> GangPlaces::warm(const Wanted& wanted, bool& is_warm) const {
  std::optional<Place> outside;
  for (SandboxSlot slot = idle_.newest_of(wanted.function); slot != kNoSandbox;
       slot = sandboxes_[slot].older) {
    const Sandbox& sandbox = sandboxes_[slot];
    if (sandbox.devices() != wanted.count || !devices_.are_healthy(sandbox)) continue;
    is_warm = true;
    if (!takes_run(sandbox, wanted)) continue;
    const Place place{sandbox.device, slot, sandbox.beside};
    if (sandbox.memory_state == MemoryState::kIn) return place;
    if (!outside) outside = place;
  }
  return outside;
}

bool GangPlaces::takes_run(const Sandbox& sandbox, const Wanted& wanted) const {
  bool takes = true;
  sandbox.for_each_device([&](uint32_t index) {
    const Device& device = devices_[index];
    takes &= gives_token(device, wanted);
    if (moves_idle(options_.memory_rule)) {
      takes &= devices_.room().memory_fits(device, sandbox.needed());
      takes &= sandbox.counts.wants_context || devices_.room().context_fits(device);
    }
  });
  return takes;
}

bool GangPlaces::gives_token(const Device& device, const Wanted& wanted) const {
  if (device.reserved && !wanted.on_reserved) return false;
  if (wanted.idle_devices_only && device.load() > 0) return false;
  return device.has_token_left();
}

// ---- Cold

uint32_t GangPlaces::devices() const {
  return static_cast<uint32_t>(std::min<size_t>(devices_.all().size(), kMostDevicesOfGangs));
}

bool GangPlaces::takes_start(const Device& device, const Wanted& wanted) const {
  return device.healthy && gives_token(device, wanted) && devices_.room().context_fits(device) &&
         devices_.room().memory_fits(device, wanted.memory);
}

template <typename Before>
void GangPlaces::keep_first(Chosen& chosen, unsigned count, Before before) const {
  const auto begin = chosen.devices.begin();
  std::partial_sort(begin, begin + count, begin + chosen.count, [&](uint32_t one, uint32_t other) {
    return before(devices_[one], one) < before(devices_[other], other);
  });
  chosen.count = count;
}

PlaceOrReason GangPlaces::cold(const Wanted& wanted) const {
  if (devices_.pool_is_full()) return {std::nullopt, WaitReason::kNoSandbox};
  Chosen chosen;
  unsigned could = 0;
  for (uint32_t i = 0; i < devices(); ++i) {
    const Device& device = devices_[i];
    if (!takes_gangs(device)) continue;
    if (device.healthy && wanted.memory <= device.options.memory) ++could;
    if (takes_start(device, wanted)) chosen.devices[chosen.count++] = i;
  }
  if (could < wanted.count) return {std::nullopt, WaitReason::kNoDevice};
  if (chosen.count < wanted.count) return {std::nullopt, WaitReason::kGpusNotTogether};
  keep_first(chosen, wanted.count, [](const Device& device, uint32_t index) {
    return std::tuple(device.load(), ~(device.capacity() - device.committed).count, index);
  });
  Place place{.device =
                  *std::min_element(chosen.devices.begin(), chosen.devices.begin() + chosen.count)};
  for (unsigned i = 0; i < chosen.count; ++i) {
    if (chosen.devices[i] != place.device) place.beside |= uint64_t{1} << chosen.devices[i];
  }
  return {place};
}

// ---- Reservation

uint64_t GangPlaces::to_reserve(const Wanted& wanted) const {
  const auto may = [&](uint32_t index) {
    return may_come_free(devices_[index], index, wanted.memory, sandboxes_.all(),
                         [this](SandboxSlot slot) -> const Sandbox& { return sandboxes_[slot]; });
  };
  for (SandboxSlot slot = idle_.newest_of(wanted.function); slot != kNoSandbox;
       slot = sandboxes_[slot].older) {
    const Sandbox& sandbox = sandboxes_[slot];
    if (sandbox.devices() != wanted.count || !devices_.are_healthy(sandbox)) continue;
    bool all_may = true;
    sandbox.for_each_device([&](uint32_t index) { all_may &= may(index); });
    if (all_may) return sandbox.beside | uint64_t{1} << sandbox.device;
  }
  Chosen chosen;
  for (uint32_t i = 0; i < devices(); ++i) {
    if (takes_gangs(devices_[i]) && may(i)) chosen.devices[chosen.count++] = i;
  }
  if (chosen.count < wanted.count) return 0;
  keep_first(chosen, wanted.count, [&](const Device& device, uint32_t index) {
    return std::tuple(takes_start(device, wanted) ? 0 : 1, device.load(), index);
  });
  uint64_t devices = 0;
  for (unsigned i = 0; i < chosen.count; ++i) devices |= uint64_t{1} << chosen.devices[i];
  return devices;
}

}  // namespace lambent::scheduling
