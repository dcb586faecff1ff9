// FleetMemory: memory that moves between the devices and the host (MemoryRule::kMoveIdle): where
// that of each sandbox is, and whether it may move. Owned by Fleet, on the loop thread; policies
// read it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/state_archive.h"
#include "core/base/units.h"
#include "decide/scheduling/device_table.h"
#include "decide/scheduling/fleet_options.h"
#include "decide/scheduling/sandbox_table.h"

namespace lambent::scheduling {

// Where the memory of a sandbox is, and what MemoryMoved told of its last move out.
struct MemoryPlace {
  bool is_out = false;
  bool deep = false;  // with its context
  Bytes left, offloaded;

  // What it takes of each device, and of the host, of so much memory on each of so many.
  Bytes on_device(Bytes memory) const {
    return !is_out ? memory - offloaded : deep ? Bytes(0) : left;
  }
  Bytes on_host(Bytes memory, unsigned devices) const {
    return !is_out ? offloaded * devices : memory * devices - on_device(memory);
  }
};

class FleetMemory {
 public:
  // All outlive it.
  FleetMemory(const FleetOptions& options, SandboxTable& sandboxes, DeviceTable& devices,
              FleetChanges& changes)
      : options_(options),
        sandboxes_(sandboxes),
        devices_(devices),
        changes_(changes),
        is_unsettled_(devices.all().size()) {}

  bool moves_idle() const { return scheduling::moves_idle(options_.memory_rule); }
  Bytes on_host() const { return on_host_; }
  // How many idle sandboxes have their memory off their device.
  unsigned resting_outside() const { return resting_outside_; }
  // The devices where room may have become short since the last settled().
  const std::vector<uint32_t>& unsettled() const { return unsettled_; }
  void settled();
  // After reading: those that are short. What was started ahead at the end of an event is looked at
  // with the next one.
  void find_unsettled();

  // Whether the memory of this one, which is out, finds room on all of its devices now. It may be
  // one that was given an invocation, or an idle one whose memory is fetched ahead.
  bool may_move_in(SandboxSlot slot) const;
  // For one that waits after a move in that failed: looks which of its devices no memory is
  // leaving. Its second try asks that of each device once, and not of all at the same time.
  void note_cleared(SandboxSlot slot);
  // Whether this idle one, which stands still, may be moved out: its memory, or what that left.
  bool may_move_out(SandboxSlot slot, bool deep) const;
  void begin_move_in(SandboxSlot slot);
  void begin_move_out(SandboxSlot slot, bool deep);
  // The move is over: it was done, and after a move out so much stayed on the device and so much
  // will stay on the host when it is moved in again; or nothing has changed.
  void end_move(SandboxSlot slot, bool done, Bytes left, Bytes offloaded = Bytes(0));

  // Where the memory is of one that is there for the first time: only if has_host_room().
  void place(SandboxSlot slot, const MemoryPlace& memory);
  bool has_host_room(Bytes bytes) const { return bytes <= options_.host_memory - on_host_; }

  // Memory that is offloaded is fetched by the sandbox that runs, once that was admitted here:
  // beside those at work, as a sandbox is. Idle ones then leave their room to it.
  bool admits_fetch(SandboxSlot slot, Bytes bytes) const;
  void begin_fetch(SandboxSlot slot, Bytes bytes);
  // Whether what was admitted finds room now.
  bool may_fetch(SandboxSlot slot) const;
  // Whether this one, which is planned, waits for memory to leave one of its devices.
  bool awaits_room(SandboxSlot slot) const;
  // It is on the device, or stays where it is.
  void end_fetch(SandboxSlot slot, bool granted);

  // For Fleet: after every change to what the counts of a sandbox follow from, and before it is
  // removed.
  void recount(SandboxSlot slot) {
    if (moves_idle()) count(slot, counts_of(sandboxes_[slot]));
  }
  void uncount(SandboxSlot slot) {
    if (moves_idle()) count(slot, {});
  }
  // What is known of the device has changed.
  void unsettle(uint32_t device);

  void archive_totals(StateArchive& archive);

 private:
  bool may_move_in_on(uint32_t index, const Sandbox& sandbox) const;
  Sandbox::Counts counts_of(const Sandbox& sandbox) const;
  void count(SandboxSlot slot, const Sandbox::Counts& counts);

  const FleetOptions& options_;
  SandboxTable& sandboxes_;
  DeviceTable& devices_;
  FleetChanges& changes_;
  Bytes on_host_;
  unsigned resting_outside_ = 0;
  std::vector<uint32_t> unsettled_;
  std::vector<uint8_t> is_unsettled_;  // by device
};

}  // namespace lambent::scheduling
