// TenantRoom: which idle sandboxes a tenant gives up because of its quotas of memory. Owned by
// Dispatcher, on the thread that handles events.
#pragma once

#include <cstdint>
#include <optional>

#include "decide/dispatch/action_log.h"
#include "decide/dispatch/device_pools.h"
#include "decide/scheduling/tenants.h"

namespace lambent::dispatch {

// Only the tenant's own, by the eviction rule; of all devices together, for that is what its quotas
// count. Looks at all sandboxes, and only where a quota is exceeded.
class TenantRoom {
 public:
  // All outlive it.
  TenantRoom(const DispatchOptions& options, const scheduling::Flows& flows,
             const scheduling::Tenants& tenants, DevicePools& pools, ActionLog& log)
      : options_(options), flows_(flows), tenants_(tenants), pools_(pools), log_(log) {}

  // For a new sandbox that takes so much.
  void make_room(uint32_t tenant, scheduling::TenantMemory more);
  // The same for one that no call waits for: false, and nothing is evicted for it any more, where
  // only sandboxes at work or kept ones could make room.
  bool make_room_beside_kept(uint32_t tenant, scheduling::TenantMemory more);
  // After a quota was lowered, or sandboxes came to rest that it does not hold.
  void settle();

 private:
  struct Victim {
    DevicePool& pool;
    scheduling::SandboxSlot slot;
  };
  std::optional<Victim> victim_of(uint32_t tenant, bool on_gpus_only) const;

  const DispatchOptions& options_;
  const scheduling::Flows& flows_;
  const scheduling::Tenants& tenants_;
  DevicePools& pools_;
  ActionLog& log_;
};

}  // namespace lambent::dispatch
