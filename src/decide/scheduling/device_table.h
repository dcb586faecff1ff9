// DeviceTable: the devices of a fleet, what is counted on each of them and on all together, and
// which have room for more. Owned by Fleet, on the loop thread; policies read it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/units.h"
#include "decide/scheduling/device.h"
#include "decide/scheduling/device_room.h"
#include "decide/scheduling/fleet_changes.h"
#include "decide/scheduling/fleet_options.h"
#include "decide/scheduling/sandbox.h"

namespace lambent::scheduling {

class DeviceTable {
 public:
  // Both outlive it.
  DeviceTable(const FleetOptions& options, FleetChanges& changes);

  const std::vector<Device>& all() const { return devices_; }
  const Device& operator[](uint32_t device) const { return devices_[device]; }
  // What each of them still takes.
  const DeviceRoom& room() const { return room_; }
  std::optional<uint32_t> index_of(DeviceId id) const;

  // Whether any healthy device could take an invocation at all; asked before every decision.
  bool any_open() const { return open_ > 0; }
  // Whether some healthy device has nothing to do.
  bool any_idle() const { return idle_ > 0; }
  // Whether all devices are healthy and at work, and none has a token left: then no idle sandbox
  // may run, of whichever function.
  bool all_full() const { return full_ == devices_.size() && !any_idle(); }
  // Whether a sandbox of this memory on so many devices could ever be placed. What is taken of a
  // device is given back.
  bool could_ever_fit(Bytes memory, unsigned count = 1) const;
  // Whether a healthy device is large enough for so much, whatever is on it now. Its answers change
  // only with the health of devices.
  bool could_hold(Bytes memory) const { return memory <= largest_healthy_; }
  // The same of so many devices together.
  bool could_hold(Bytes memory, unsigned count) const {
    return could_hold(memory) && (count <= 1 || could_hold_together(memory, count, true));
  }
  // What is kept for a function that takes several (Device::reserved): these, and no others.
  void reserve(uint64_t devices);
  uint64_t reserved() const;
  // How often the devices of this sandbox were lost, together; and whether all are healthy.
  unsigned losses_of(const Sandbox& sandbox) const;
  bool are_healthy(const Sandbox& sandbox) const;
  // The devices where more is committed than what was taken of them leaves, in their order.
  const std::vector<uint32_t>& crowded() const { return crowded_; }

  // Planned, starting, idle and busy sandboxes of all devices; the idle ones of these; and the
  // processes that exist.
  unsigned sandboxes() const { return sandboxes_; }
  unsigned idle_sandboxes() const { return idle_sandboxes_; }
  unsigned occupants() const { return occupants_; }
  // Whether so many sandboxes are at work that no idle one can be evicted for another.
  bool pool_is_full() const { return sandboxes_ - idle_sandboxes_ >= options_.most_sandboxes; }

  // What sandboxes do. `sandbox` is on the device that it names.
  void hold(Sandbox& sandbox, Sandbox::Holds what);
  void release(Sandbox& sandbox);
  // It holds a token and does not go.
  void note_hung_token(const Sandbox& sandbox);
  void commit(Sandbox& sandbox, Bytes committed);
  void add_sandbox(const Sandbox& sandbox) {
    sandbox.for_each_device([this](uint32_t device) { ++devices_[device].sandboxes; });
    ++sandboxes_;
  }
  void remove_sandbox(const Sandbox& sandbox) {
    sandbox.for_each_device([this](uint32_t device) { --devices_[device].sandboxes; });
    --sandboxes_;
  }
  void add_occupant(const Sandbox& sandbox);
  void remove_occupant(const Sandbox& sandbox);
  void add_idle(const Sandbox& sandbox);
  void remove_idle(const Sandbox& sandbox);
  // In place of what it counted before.
  void count(Sandbox& sandbox, const Sandbox::Counts& counts);

  void set_reading(uint32_t device, double utilisation, bool healthy, bool lost);
  void set_taken(uint32_t device, Bytes taken);
  // Counts a loss: sandboxes from before are told from those after by device_losses.
  void lose(uint32_t device) { ++devices_[device].losses; }

  // The parts of a snapshot, in their order.
  void archive(StateArchive& archive);
  void archive_totals(StateArchive& archive);
  // What is not written because it follows from the rest.
  void find_again();
  // With what is reserved, which is written apart.
  void restore_reserved(uint64_t devices);

 private:
  // Wraps a change of a device's tokens so that the counts of devices stay right.
  template <typename Change>
  void change(uint32_t device, Change change_it);
  bool could_hold_together(Bytes memory, unsigned count, bool now) const;
  void note_crowded(uint32_t device);
  void find_largest_healthy();

  const FleetOptions& options_;
  FleetChanges& changes_;
  const DeviceRoom room_;
  std::vector<Device> devices_;
  unsigned open_ = 0;
  unsigned idle_ = 0;
  unsigned full_ = 0;
  Bytes largest_healthy_;  // memory; zero if no device is healthy
  std::vector<uint32_t> crowded_;
  unsigned sandboxes_ = 0;
  unsigned occupants_ = 0;
  unsigned idle_sandboxes_ = 0;
};

}  // namespace lambent::scheduling
