#include "decide/scheduling/cold_places.h"

#include <algorithm>

namespace lambent::scheduling {

// A larger one that has no place either has none for the same reason: find() remembers it.
WaitReason ColdPlaces::obstacle(const Device& device, Bytes memory) const {
  if (!device.has_token()) {
    const bool starts = devices_.room().has_start_slot(device, memory) &&
                        devices_.room().context_fits(device) &&
                        devices_.room().memory_fits(device, memory);
    if (starts) return WaitReason::kNone;
    return device.reserved ? WaitReason::kGpuReserved : WaitReason::kNoToken;
  }
  if (!devices_.room().context_fits(device)) return WaitReason::kNoSandbox;
  if (!devices_.room().memory_fits(device, memory)) return WaitReason::kNoMemory;
  return WaitReason::kNone;
}

PlaceOrReason ColdPlaces::find(Bytes memory, bool idle_devices_only) const {
  if (devices_.pool_is_full()) return {std::nullopt, WaitReason::kNoSandbox};
  if (idle_devices_only && !devices_.any_idle()) return {std::nullopt, WaitReason::kNoDevice};
  Searches& known = searches(idle_devices_only);
  if (known.failed && memory >= known.memory) return {std::nullopt, known.reason};
  renew_order();
  if (!order_.empty()) {
    const Device& first = devices_[order_.top()];
    if (takes(first, memory) && (!idle_devices_only || first.is_idle())) {
      note_place(first, memory, idle_devices_only);
      return {Place{order_.top(), kNoSandbox}};
    }
  }
  const PlaceOrReason found = scan(memory, idle_devices_only);
  if (found.place) {
    known.fits_below = std::max(known.fits_below, memory + Bytes(1));
  } else {
    known.failed = true;
    known.memory = memory;
    known.reason = found.reason;
  }
  return found;
}

ColdPlaces::Searches& ColdPlaces::searches(bool idle_devices_only) const {
  if (!searches_stand()) {
    version_ = changes_.version();
    searches_[0] = searches_[1] = {};
  }
  return searches_[idle_devices_only ? 1 : 0];
}

// On its tokens the device takes whatever has room; in a start slot not all of that.
void ColdPlaces::note_place(const Device& device, Bytes memory, bool idle_devices_only) const {
  const Bytes fits = device.has_token() ? devices_.room().memory_of(device) : memory;
  Bytes& fits_below = searches(idle_devices_only).fits_below;
  fits_below = std::max(fits_below, fits + Bytes(1));
}

// Where there was one before there mostly still is, or near there: the order of devices is renewed
// only if there is not.
bool ColdPlaces::look_for_any(Bytes memory, bool idle_devices_only) const {
  uint32_t& last = last_[idle_devices_only ? 1 : 0];
  const size_t near = std::min(kNearLast, devices_.all().size());
  for (size_t looks = 0; looks < near; ++looks) {
    const Device& device = devices_[last];
    if (device.healthy && (!idle_devices_only || device.is_idle()) && takes(device, memory)) {
      note_place(device, memory, idle_devices_only);
      return true;
    }
    if (++last == devices_.all().size()) last = 0;
  }
  return find(memory, idle_devices_only).place.has_value();
}

void ColdPlaces::renew_order() const {
  changes_.visit_loads([&](uint32_t i) {
    const Device& device = devices_[i];
    if (devices_.room().is_open(device)) {
      order_.put(i, {device.load(), ~(device.capacity() - device.committed).count});
    } else {
      order_.erase(i);
    }
  });
}

PlaceOrReason ColdPlaces::scan(Bytes memory, bool idle_devices_only) const {
  const Device* best = nullptr;
  WaitReason reason = WaitReason::kNoDevice;
  for (const Device& device : devices_.all()) {
    if (!device.healthy || (idle_devices_only && !device.is_idle())) continue;
    if (const WaitReason here = obstacle(device, memory); here != WaitReason::kNone) {
      reason = here;
      continue;
    }
    const auto spare = [](const Device& d) { return d.capacity() - d.committed; };
    if (best == nullptr || device.load() < best->load() ||
        (device.load() == best->load() && spare(device) > spare(*best))) {
      best = &device;
    }
  }
  if (best == nullptr) return {std::nullopt, reason};
  return {Place{static_cast<uint32_t>(best - devices_.all().data()), kNoSandbox}};
}

}  // namespace lambent::scheduling
