#include "decide/scheduling/device_table.h"

#include <algorithm>

#include "decide/scheduling/gang_devices.h"

namespace lambent::scheduling {

DeviceTable::DeviceTable(const FleetOptions& options, FleetChanges& changes)
    : options_(options), changes_(changes), room_(options) {
  for (const DeviceOptions& device : options_.devices) {
    devices_.push_back(Device{.options = device});
    if (device.by_utilisation) devices_.back().concurrency.emplace(*device.by_utilisation);
    if (room_.is_open(devices_.back())) ++open_;
    if (devices_.back().is_free()) ++idle_;
    if (devices_.back().is_full()) ++full_;
  }
  for (uint32_t i = 0; i < devices_.size(); ++i) changes_.note_load(i);
  find_largest_healthy();
}

// ---- Questions

std::optional<uint32_t> DeviceTable::index_of(DeviceId id) const {
  // They mostly count from 1 and stand in this order.
  const uint32_t guess = id.value - 1;
  if (guess < devices_.size() && devices_[guess].options.id == id) return guess;
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].options.id == id) return i;
  }
  return std::nullopt;
}

bool DeviceTable::could_ever_fit(Bytes memory, unsigned count) const {
  if (count > 1) return could_hold_together(memory, count, false);
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](const Device& device) { return memory <= device.options.memory; });
}

bool DeviceTable::could_hold_together(Bytes memory, unsigned count, bool now) const {
  const size_t most = std::min<size_t>(devices_.size(), kMostDevicesOfGangs);
  const auto large = std::count_if(
      devices_.begin(), devices_.begin() + static_cast<ptrdiff_t>(most), [&](const Device& device) {
        return takes_gangs(device) && memory <= device.options.memory && (device.healthy || !now);
      });
  return static_cast<size_t>(large) >= count;
}

// ---- Tokens

template <typename Change>
void DeviceTable::change(uint32_t index, Change change_it) {
  Device& device = devices_[index];
  const bool was_open = room_.is_open(device);
  const bool was_idle = device.is_free();
  const bool was_full = device.is_full();
  change_it(device);
  open_ += static_cast<unsigned>(room_.is_open(device)) - static_cast<unsigned>(was_open);
  idle_ += static_cast<unsigned>(device.is_free()) - static_cast<unsigned>(was_idle);
  full_ += static_cast<unsigned>(device.is_full()) - static_cast<unsigned>(was_full);
  changes_.note_load(index);
}

void DeviceTable::hold(Sandbox& sandbox, Sandbox::Holds what) {
  sandbox.holds = what;
  sandbox.for_each_device([&](uint32_t index) {
    change(index, [&](Device& device) {
      if (what == Sandbox::Holds::kToken) {
        ++device.tokens_held;
        if (device.concurrency) device.concurrency->dispatched();
      }
      if (what == Sandbox::Holds::kStartSlot) {
        ++device.start_slots_held;
        device.starting += sandbox.memory;
      }
    });
  });
}

void DeviceTable::release(Sandbox& sandbox) {
  const Sandbox::Holds what = std::exchange(sandbox.holds, Sandbox::Holds::kNothing);
  if (what == Sandbox::Holds::kNothing) return;
  sandbox.for_each_device([&](uint32_t index) {
    change(index, [&](Device& device) {
      if (what == Sandbox::Holds::kToken) {
        --device.tokens_held;
        if (sandbox.hangs) --device.tokens_hung;
      }
      if (what == Sandbox::Holds::kStartSlot) {
        --device.start_slots_held;
        device.starting -= sandbox.memory;
      }
    });
  });
}

void DeviceTable::note_hung_token(const Sandbox& sandbox) {
  sandbox.for_each_device(
      [&](uint32_t device) { change(device, [](Device& d) { ++d.tokens_hung; }); });
}

uint64_t DeviceTable::reserved() const {
  uint64_t reserved = 0;
  for (uint32_t i = 0; i < devices_.size() && i < kMostDevicesOfGangs; ++i) {
    reserved |= uint64_t{devices_[i].reserved} << i;
  }
  return reserved;
}

unsigned DeviceTable::losses_of(const Sandbox& sandbox) const {
  unsigned losses = 0;
  sandbox.for_each_device([&](uint32_t index) { losses += devices_[index].losses; });
  return losses;
}

bool DeviceTable::are_healthy(const Sandbox& sandbox) const {
  bool healthy = true;
  sandbox.for_each_device([&](uint32_t index) { healthy &= devices_[index].healthy; });
  return healthy;
}

void DeviceTable::reserve(uint64_t devices) {
  const size_t most = std::min<size_t>(devices_.size(), kMostDevicesOfGangs);
  for (uint32_t i = 0; i < most; ++i) {
    const bool reserved = (devices >> i & 1) != 0;
    if (devices_[i].reserved == reserved) continue;
    change(i, [&](Device& device) { device.reserved = reserved; });
    changes_.note_device(i);
  }
}

// ---- What is on them

void DeviceTable::commit(Sandbox& sandbox, Bytes committed) {
  if (sandbox.committed == committed) return;
  const Bytes before = std::exchange(sandbox.committed, committed);
  sandbox.for_each_device([&](uint32_t device) {
    Bytes& total = devices_[device].committed;
    total = total - before + committed;
    note_crowded(device);
    changes_.note_load(device);
  });
}

// Nearly always there is none and nothing to do: this is asked at every start and end of a run.
void DeviceTable::note_crowded(uint32_t index) {
  const Device& device = devices_[index];
  const bool is_crowded = device.taken > Bytes(0) && device.committed > device.capacity();
  if (!is_crowded && crowded_.empty()) return;
  const auto place = std::lower_bound(crowded_.begin(), crowded_.end(), index);
  const bool was_crowded = place != crowded_.end() && *place == index;
  if (is_crowded && !was_crowded) crowded_.insert(place, index);
  if (!is_crowded && was_crowded) crowded_.erase(place);
}

void DeviceTable::add_occupant(const Sandbox& sandbox) {
  ++occupants_;
  sandbox.for_each_device([&](uint32_t device) {
    ++devices_[device].occupants;
    devices_[device].occupied += sandbox.memory;
  });
}

void DeviceTable::remove_occupant(const Sandbox& sandbox) {
  --occupants_;
  sandbox.for_each_device([&](uint32_t device) {
    --devices_[device].occupants;
    devices_[device].occupied -= sandbox.memory;
  });
}

void DeviceTable::add_idle(const Sandbox& sandbox) {
  sandbox.for_each_device([&](uint32_t index) {
    devices_[index].idle_memory += sandbox.memory;
    ++devices_[index].idle;
    changes_.note_device(index);
  });
  ++idle_sandboxes_;
  changes_.note_function(sandbox.function);
}

void DeviceTable::remove_idle(const Sandbox& sandbox) {
  --idle_sandboxes_;
  changes_.note_function(sandbox.function);
  sandbox.for_each_device([&](uint32_t index) {
    devices_[index].idle_memory -= sandbox.memory;
    --devices_[index].idle;
    changes_.note_device(index);
  });
}

void DeviceTable::count(Sandbox& sandbox, const Sandbox::Counts& counts) {
  const Sandbox::Counts before = std::exchange(sandbox.counts, counts);
  const auto add = [](auto& total, auto was, auto is) { total = total - was + is; };
  const auto add_one = [](unsigned& total, bool was, bool is) {
    total += static_cast<unsigned>(is) - static_cast<unsigned>(was);
  };
  sandbox.for_each_device([&](uint32_t index) {
    Device& device = devices_[index];
    add(device.resident, before.on_device, counts.on_device);
    add(device.promised, before.promised, counts.promised);
    add(device.leaving, before.leaving, counts.leaving);
    add_one(device.without_context, before.without_context, counts.without_context);
    add_one(device.contexts_wanted, before.wants_context, counts.wants_context);
  });
}

// ---- What devices report

void DeviceTable::set_reading(uint32_t device, double utilisation, bool healthy, bool lost) {
  change(device, [&](Device& d) {
    d.lost = lost;
    d.utilisation = utilisation;
    if (d.concurrency) d.concurrency->reading(utilisation);
    d.healthy = healthy;
  });
  find_largest_healthy();
}

void DeviceTable::set_taken(uint32_t device, Bytes taken) {
  devices_[device].taken = taken;
  note_crowded(device);
  changes_.note_load(device);
}

void DeviceTable::find_largest_healthy() {
  largest_healthy_ = Bytes(0);
  for (const Device& device : devices_) {
    if (device.healthy) largest_healthy_ = std::max(largest_healthy_, device.options.memory);
  }
}

// ---- As bytes

void DeviceTable::archive(StateArchive& archive) {
  archive.expect(archive.count(devices_.size()) == devices_.size());
  if (!archive.ok()) return;
  for (Device& device : devices_) device.archive(archive);
  archive.field(open_);
}

void DeviceTable::archive_totals(StateArchive& archive) {
  archive.field(sandboxes_);
  archive.field(occupants_);
  archive.field(idle_sandboxes_);
}

void DeviceTable::find_again() {
  crowded_.clear();
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    changes_.note_load(i);
    note_crowded(i);
  }
  find_largest_healthy();
  idle_ = full_ = 0;
  for (const Device& device : devices_) {
    if (device.is_free()) ++idle_;
    if (device.is_full()) ++full_;
  }
}

void DeviceTable::restore_reserved(uint64_t devices) {
  for (uint32_t i = 0; i < devices_.size() && i < kMostDevicesOfGangs; ++i) {
    devices_[i].reserved = (devices >> i & 1) != 0;
  }
  idle_ = full_ = 0;
  for (const Device& device : devices_) {
    if (device.is_free()) ++idle_;
    if (device.is_full()) ++full_;
  }
}

void Device::archive(StateArchive& archive) {
  if (concurrency) concurrency->archive(archive);
  archive.field(healthy);
  archive.field(lost);
  archive.field(taken);
  archive.field(losses);
  archive.field(utilisation);
  archive.field(tokens_held);
  archive.field(start_slots_held);
  archive.field(starting);
  archive.field(tokens_hung);
  archive.field(sandboxes);
  archive.field(occupants);
  archive.field(idle);
  archive.field(committed);
  archive.field(idle_memory);
  archive.field(occupied);
  archive.field(resident);
  archive.field(promised);
  archive.field(leaving);
  archive.field(without_context);
  archive.field(contexts_wanted);
}

}  // namespace lambent::scheduling
