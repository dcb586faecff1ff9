// Parts: the parts of a dispatcher, joined as it joins them, so that a test can ask one of them and
// see what it made of the others. For the tests of dispatch.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "decide/dispatch/function_changes.h"
#include "decide/dispatch/memory_pressure.h"
#include "decide/dispatch/outcomes.h"
#include "decide/scheduling/fcfs.h"

namespace lambent::dispatch {

inline DispatchOptions one_gpu(scheduling::MemoryRule rule = scheduling::MemoryRule::kMoveIdle) {
  DispatchOptions options;
  options.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16)}};
  options.fleet.memory_rule = rule;
  return options;
}

struct Parts {
  // First come, first served; memory moves off a GPU only where it is in the way, or after each
  // run.
  explicit Parts(DispatchOptions options_in = one_gpu(), bool moves_off_after_run = false)
      : options(std::move(options_in)),
        pools(options,
              std::make_unique<scheduling::FcfsPolicy>(
                  scheduling::FcfsOptions{.moves_off_after_run = moves_off_after_run}),
              nullptr, flows, tenants, log) {
    at(0);
  }

  // From here on it is that second, and there are no actions yet.
  void at(int second) {
    actions.clear();
    log.begin(TimerFired{}, Instant(seconds(second)), actions);
    for (DevicePool* pool : pools.all()) pool->fleet().set_time(log.now());
  }
  template <typename Kind>
  std::vector<Kind> got() const {
    std::vector<Kind> found;
    for (const Action& action : actions) {
      if (const Kind* one = std::get_if<Kind>(&action)) found.push_back(*one);
    }
    return found;
  }

  scheduling::Flow& flow(FunctionId function) { return flows[function.value]; }
  void add_function(FunctionId function, Bytes memory, Duration timeout = {}) {
    functions.registered({{.id = function,
                           .tenant = TenantId{1},
                           .max_concurrency = 4,
                           .device_memory = memory,
                           .timeout = timeout}});
  }
  InvocationSlot submit(uint64_t number, FunctionId function, bool asynchronous = false) {
    admission.submit({{0, number}, function, asynchronous});
    return *queues.find({0, number});
  }
  // Gives the oldest of the flow a place; false: there is none.
  bool dispatch(FunctionId function) {
    DevicePool& pool = pools.of(flow(function));
    const auto found = pool.fleet().places().find(function, flow(function), false);
    if (found.place) {
      placements.dispatch(pool, scheduling::Decision::to(function, *found.place));
    }
    return found.place.has_value();
  }
  // Submits one, and runs it to its end in the sandbox that it was given.
  SandboxId run_one(uint64_t number, FunctionId function) {
    const InvocationSlot slot = submit(number, function);
    dispatch(function);
    const DevicePool& pool = pools.of(flow(function));
    const SandboxId sandbox = pool.fleet().sandbox(queues[slot].sandbox).id;
    placements.sandbox_ready({sandbox});
    outcomes.finished({{0, number}, seconds(1), true});
    return sandbox;
  }
  const scheduling::Sandbox& gpu_sandbox(SandboxId id) const {
    const scheduling::Fleet& fleet = pools.gpu.fleet();
    return fleet.sandbox(*fleet.find(id));
  }

  DispatchOptions options;
  scheduling::Flows flows;
  scheduling::Tenants tenants;
  ActionLog log;
  std::vector<Action> actions;
  Queues queues{options, flows};
  DevicePools pools;
  HostOverflow overflow{options, flows, tenants, queues, pools.gpu.scheduler(), pools.host.fleet()};
  Admission admission{options, flows, tenants, queues, overflow, pools, log};
  TenantRoom room{options, flows, tenants, pools, log};
  Placements placements{flows, tenants, queues, overflow, admission, pools, room, log};
  MinInstances instances{options, flows, queues, admission, pools, room, placements, log};
  Outcomes outcomes{options,   flows, tenants,    queues,    overflow,
                    admission, pools, placements, instances, log};
  MemoryPressure pressure{options, flows, pools.gpu, log};
  FunctionChanges functions{options,   flows, tenants,    queues,    overflow,
                            admission, pools, placements, instances, log};
};

}  // namespace lambent::dispatch
