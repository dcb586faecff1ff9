// KeptSandboxes: sandboxes with a GPU that the program before this one left become dispatch's, each
// where it is, with its memory where that is. Owned by Dispatcher, on the thread that handles
// events.
#pragma once

#include <optional>

#include "decide/dispatch/admission.h"
#include "decide/dispatch/device_pools.h"
#include "decide/dispatch/placements.h"
#include "decide/dispatch/tenant_room.h"

namespace lambent::dispatch {

class KeptSandboxes {
 public:
  // All outlive it.
  KeptSandboxes(const scheduling::Flows& flows, const Admission& admission, DevicePools& pools,
                TenantRoom& room, Placements& placements, ActionLog& log)
      : flows_(flows),
        admission_(admission),
        pools_(pools),
        room_(room),
        placements_(placements),
        log_(log) {}

  // It rests there from now on; or there is no place for it: nothing is known of it then.
  void take(const SandboxReady& event);

 private:
  std::optional<scheduling::Place> place_of(const SandboxReady& event) const;
  bool has_room(const scheduling::Place& place, Bytes memory,
                const scheduling::MemoryPlace& where) const;
  bool has_room_on(const scheduling::Device& device, Bytes memory,
                   const scheduling::MemoryPlace& where) const;

  const scheduling::Flows& flows_;
  const Admission& admission_;
  DevicePools& pools_;
  TenantRoom& room_;
  Placements& placements_;
  ActionLog& log_;
};

}  // namespace lambent::dispatch
