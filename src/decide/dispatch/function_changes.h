// FunctionChanges: what dispatch does when a function is deployed, changed or removed. Owned by
// Dispatcher, on the thread that handles events.
#pragma once

#include "decide/dispatch/admission.h"
#include "decide/dispatch/device_pools.h"
#include "decide/dispatch/event.h"
#include "decide/dispatch/host_overflow.h"
#include "decide/dispatch/min_instances.h"
#include "decide/dispatch/options.h"
#include "decide/dispatch/placements.h"
#include "decide/dispatch/queues.h"

namespace lambent::dispatch {

class FunctionChanges {
 public:
  FunctionChanges(const DispatchOptions& options, scheduling::Flows& flows,
                  scheduling::Tenants& tenants, Queues& queues, HostOverflow& overflow,
                  Admission& admission, DevicePools& pools, Placements& placements,
                  MinInstances& instances, ActionLog& log)
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

  void registered(const FunctionRegistered& event);
  void removed(const FunctionRemoved& event);

 private:
  void drop_outdated_plans(const FunctionProfile& profile);
  void leave_pool(FunctionId function);
  void count_runs_of(FunctionId function);
  void set_limits(const FunctionProfile& profile);
  bool serves_calls(const DevicePool& pool, FunctionId function, uint64_t revision) const;

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
