// Outcomes: how invocations that have a place end, and what becomes of their sandboxes then. Owned
// by Dispatcher, on the thread that handles events.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.h"
#include "decide/dispatch/action_log.h"
#include "decide/dispatch/admission.h"
#include "decide/dispatch/device_pools.h"
#include "decide/dispatch/host_overflow.h"
#include "decide/dispatch/min_instances.h"
#include "decide/dispatch/options.h"
#include "decide/dispatch/placements.h"
#include "decide/dispatch/queues.h"

namespace lambent::dispatch {

// Each invocation gets its one outcome here or from Admission.
class Outcomes {
 public:
  Outcomes(const DispatchOptions& options, scheduling::Flows& flows, scheduling::Tenants& tenants,
           Queues& queues, HostOverflow& overflow, Admission& admission, DevicePools& pools,
           Placements& placements, MinInstances& instances, ActionLog& log)
      : options_(options),
        flows_(flows),
        tenants_(tenants),
        queues_(queues),
        overflow_(overflow),
        admission_(admission),
        pools_(pools),
        placements_(placements),
        instances_(instances),
        log_(log) {}

  void finished(const InvocationFinished& event);
  void undelivered(const InvocationUndelivered& event);
  void sandbox_exited(const SandboxExited& event);
  // It has waited, or run, too long.
  void expire(InvocationSlot slot);
  // It has started, rested or been stopped for too long.
  void expire(DevicePool& pool, scheduling::SandboxSlot sandbox);
  // A move of its memory has failed for good, or takes too long: a process that cannot be moved is
  // of no use.
  void fail_move(DevicePool& pool, scheduling::SandboxSlot sandbox);
  // What sandboxes had on this GPU is gone, and no call of theirs will succeed again. Idle and
  // starting ones are stopped; one that runs may still answer, and goes then.
  void lose_device(uint32_t device);

 private:
  void complete(InvocationSlot slot, Outcome outcome, std::optional<Error> error,
                std::string error_type);
  // The GPU time that the run had, to its tenant; of one that shared its sandbox, what no other was
  // charged for.
  void charge(const PendingInvocation& invocation, Duration time);
  void fail_run(InvocationSlot slot, const SandboxExited& event);
  void time_out(InvocationSlot slot);
  Phases phases_of(const PendingInvocation& invocation) const;
  void after_run(DevicePool& pool, scheduling::SandboxSlot sandbox);
  std::optional<StopReason> must_go(const DevicePool& pool,
                                    const scheduling::Sandbox& sandbox) const;
  bool restart(DevicePool& pool, scheduling::SandboxSlot sandbox);
  void start_failed(DevicePool& pool, scheduling::SandboxSlot sandbox, const SandboxExited& event);
  void start_lost(DevicePool& pool, scheduling::SandboxSlot sandbox);
  void stop_hangs(DevicePool& pool, scheduling::SandboxSlot sandbox);

  const DispatchOptions& options_;
  scheduling::Flows& flows_;
  scheduling::Tenants& tenants_;
  Queues& queues_;
  HostOverflow& overflow_;
  Admission& admission_;
  DevicePools& pools_;
  Placements& placements_;
  MinInstances& instances_;
  ActionLog& log_;
};

}  // namespace lambent::dispatch
