// Fleet: the devices that share one set of flows and the sandboxes on them: tokens, memory, warm
// pool. Kept by dispatch on the loop thread; policies and tests read it to find a place for a flow.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "decide/scheduling/contention.h"
#include "decide/scheduling/device_table.h"
#include "decide/scheduling/fleet_changes.h"
#include "decide/scheduling/fleet_memory.h"
#include "decide/scheduling/fleet_options.h"
#include "decide/scheduling/flow.h"
#include "decide/scheduling/foresight.h"
#include "decide/scheduling/idle_sandboxes.h"
#include "decide/scheduling/place.h"
#include "decide/scheduling/places.h"
#include "decide/scheduling/sandbox_table.h"

namespace lambent::scheduling {

// It follows each sandbox from its plan to its end and tells its parts, which answer questions.
class Fleet {
 public:
  explicit Fleet(FleetOptions options);
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  const FleetOptions& options() const { return options_; }
  const std::vector<Device>& devices() const { return devices_.all(); }
  std::optional<uint32_t> device_index(DeviceId id) const { return devices_.index_of(id); }
  const Sandbox& sandbox(SandboxSlot slot) const { return sandboxes_[slot]; }
  std::optional<SandboxSlot> find(SandboxId id) const { return sandboxes_.find(id); }
  // How many of the function are planned or starting.
  unsigned starts_of(FunctionId function) const { return sandboxes_.starts_of(function); }
  // Every sandbox that exists, in no order.
  const std::vector<SandboxSlot>& all() const { return sandboxes_.all(); }

  const FleetChanges& changes() const { return changes_; }
  const DeviceTable& device_table() const { return devices_; }
  const IdleSandboxes& idle() const { return idle_; }
  const Places& places() const { return places_; }
  const FleetMemory& memory() const { return memory_; }
  const Contention& contention() const { return contention_; }
  FleetMemory& memory() { return memory_; }
  const Foresight& foresight() const { return foresight_; }
  Foresight& foresight() { return foresight_; }

  // The device memory that a sandbox of this flow takes there: none on the host.
  Bytes memory_of(const Flow& flow, uint32_t device) const {
    return devices_[device].options.id == kHostDevice ? Bytes(0) : flow.device_memory;
  }
  // Whether the processes that still exist leave room for this planned one to be started.
  bool may_start(SandboxSlot slot) const;
  // A sandbox that is ready may run if it holds a token or its device has one left.
  bool may_run(SandboxSlot slot) const;

  // These devices, as bits by their index, are kept for a function that takes several; no others.
  void reserve(uint64_t devices) { devices_.reserve(devices); }

  // The present, before anything is asked.
  void set_time(Instant now) { places_.set_time(now); }

  // What dispatch did. Each keeps the counts of the device.
  SandboxSlot plan(SandboxId id, FunctionId function, const Flow& flow, const Place& place,
                   Instant now);
  void start(SandboxSlot slot, Instant now);
  // Returns whether its memory was on the device.
  bool run(SandboxSlot slot, Instant now);
  // The memory that its run waited for is on the device.
  void begin_work(SandboxSlot slot, Instant now);
  void rest(SandboxSlot slot, Instant now);
  // What it holds stays held until it is gone, because the device is not free before.
  void stop(SandboxSlot slot, Instant now);
  // A stopping one that does not go counts for admission again until it is removed. Nothing may be
  // planned at that moment, or it would count on the same room.
  void keep_counting(SandboxSlot slot);
  void remove(SandboxSlot slot);
  // The same place, token and memory for another try at starting it.
  void replace_id(SandboxSlot slot, SandboxId id, Instant now);
  // A busy sandbox that is gone is started again in the same place, with what it holds.
  void restart(SandboxSlot slot, SandboxId id, uint64_t revision, Instant now);
  void assign(SandboxSlot slot, uint32_t invocation);
  void unassign(SandboxSlot slot) { sandboxes_[slot].has_invocation = false; }
  // What was learnt of this function's runs is of another one.
  void forget(FunctionId function) {
    contention_.forget(function);
    foresight_.forget(function);
  }

  void set_reading(uint32_t device, double utilisation, bool healthy, bool lost = false);
  void set_taken(uint32_t device, Bytes taken);
  void lose(uint32_t device) { devices_.lose(device); }

  // Everything but the options, which must be the same where it is restored.
  void archive(StateArchive& archive);
  // The part that is added where functions take several devices.
  void archive_gangs(StateArchive& archive);

 private:
  void become(SandboxSlot slot, SandboxState state, Instant now);

  // The parts refer to the options and to the parts before them.
  FleetOptions options_;
  FleetChanges changes_;
  SandboxTable sandboxes_;
  DeviceTable devices_;
  IdleSandboxes idle_;
  FleetMemory memory_;
  Places places_;
  Contention contention_;
  Foresight foresight_;
};

}  // namespace lambent::scheduling
