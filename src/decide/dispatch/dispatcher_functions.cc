// The part of Dispatcher that is told of functions: deployed, changed, removed.
#include <algorithm>
#include <utility>

#include "decide/dispatch/device_pool.h"
#include "decide/dispatch/dispatcher.h"

namespace lambent::dispatch {

using scheduling::Flow;
using scheduling::RunningMean;
using scheduling::Sandbox;
using scheduling::SandboxSlot;

namespace {

// Of a function that gains a GPU, what was learnt so far is of the host; of one that loses its GPU,
// what was learnt of its CPU variant is all that still holds.
void move_statistics(Flow& flow, bool to_gpu, Instant now) {
  const auto take = [](RunningMean& mean) {
    const RunningMean taken = std::exchange(mean, RunningMean{});
    return RunningMean(taken.mean(), taken.samples());
  };
  if (to_gpu) {
    flow.host_execution = take(flow.execution);
    flow.host_cold_start = take(flow.cold_start);
    flow.last_host_run = now;
  } else {
    flow.execution = take(flow.host_execution);
    flow.cold_start = take(flow.host_cold_start);
  }
}

}  // namespace

void Dispatcher::on(const FunctionRegistered& event) {
  const FunctionProfile& profile = event.profile;
  if (profile.id.value >= flows_.size()) flows_.resize(profile.id.value + 1);
  Flow& flow = flows_[profile.id.value];
  if (flow.registered && profile.revision < flow.revision) {
    ++counters_.ignored_events;
    return;
  }
  // What was planned for the function as it was needs another place.
  for (DevicePool* device_pool : {gpu_.get(), host_.get()}) {
    drop_planned(*device_pool, [&](const Sandbox& sandbox) {
      return sandbox.function == profile.id &&
             (sandbox.revision != profile.revision ||
              sandbox.memory != (device_pool == host_.get() ? Bytes(0) : profile.device_memory) ||
              queues_[sandbox.invocation].is_cpu_variant() !=
                  (device_pool == host_.get() && profile.device_memory.count > 0));
    });
  }
  // If it now runs elsewhere (with or without GPU) it leaves its old device pool with all that it
  // has.
  const bool moves = (flow.device_memory.count > 0) != (profile.device_memory.count > 0);
  const bool had_work = flow.has_work();
  const Queues::Waiting waiting = queues_.uncount(profile.id);
  if (flow.registered && flow.device_memory.count == 0) --functions_without_gpu_;
  if (moves && had_work) {
    DevicePool& old_device_pool = device_pool_of(profile.id);
    const uint32_t in_flight = std::exchange(flow.in_flight, 0);
    old_device_pool.policy->flow_changed(view_of(old_device_pool), profile.id, log_.now());
    flow.in_flight = in_flight;
  }

  if (!flow.registered) {
    flow = Flow{};
    flow.execution = RunningMean(profile.mean_execution, profile.completed);
    flow.interarrival = RunningMean(profile.mean_interarrival, profile.completed);
    flow.cold_start =
        RunningMean(profile.mean_cold_start, profile.mean_cold_start.count() > 0 ? 1 : 0);
    // A journal tells the rest of those alone that have a variant.
    if (profile.has_cpu_variant) {
      flow.host_execution = RunningMean(profile.mean_host_execution, profile.completed_on_host);
      flow.host_cold_start = RunningMean(profile.mean_host_cold_start,
                                         profile.mean_host_cold_start.count() > 0 ? 1 : 0);
    }
    flow.last_host_run = log_.now();
    // Invocations of a function of the same id that was removed may still run: they count.
    for (const DevicePool* device_pool : {gpu_.get(), host_.get()}) {
      for (const SandboxSlot slot : device_pool->fleet.all()) {
        const Sandbox& sandbox = device_pool->fleet.sandbox(slot);
        if (sandbox.function != profile.id || !sandbox.has_invocation) continue;
        ++(queues_[sandbox.invocation].is_cpu_variant() ? flow.on_host : flow.in_flight);
      }
    }
  } else if (moves) {
    move_statistics(flow, profile.device_memory.count > 0, log_.now());
  }
  flow.registered = true;
  flow.tenant = profile.tenant;
  flow.revision = profile.revision;
  flow.weight = profile.weight;
  flow.declared_concurrency = std::max(1U, profile.max_concurrency);
  if (profile.device_memory.count == 0) {
    // No function has the whole of the host.
    const unsigned others = std::max(1U, options_.host_concurrency / 4);
    const unsigned most = std::max(1U, options_.host_concurrency - others);
    flow.declared_concurrency = std::min(flow.declared_concurrency, most);
  }
  flow.device_memory = profile.device_memory;
  flow.timeout = profile.timeout;
  flow.memory_moves = profile.memory_moves;
  flow.checkpoints = profile.checkpoints;
  flow.has_cpu_variant = profile.has_cpu_variant && profile.device_memory.count > 0;
  flow.gpu_speedup = flow.has_cpu_variant ? profile.gpu_speedup : 0;
  // What runs of an older revision fails for that one.
  flow.host_failures = 0;
  flow.host_failed = log_.now();
  flow.max_concurrency = gpu_concurrency_of(flow, false);
  ranks_stale_ = options_.hybrid.rule == scheduling::HybridRule::kTopShare;
  if (flow.device_memory.count == 0) ++functions_without_gpu_;

  DevicePool& device_pool = device_pool_of(profile.id);
  queues_.count(profile.id, waiting);
  device_pool.policy->flow_changed(view_of(device_pool), profile.id, log_.now());
  if (!may_wait(flow)) {
    reject_queue(profile.id, too_large(flow.device_memory));
  }
  for (DevicePool* each : {gpu_.get(), host_.get()}) {
    const std::vector<SandboxSlot> idle = each->fleet.idle_of(profile.id);
    for (const SandboxSlot slot : idle) {
      if (each->fleet.sandbox(slot).revision != flow.revision) {
        stop_sandbox(*each, slot, StopReason::kRetired);
      }
    }
  }
}

void Dispatcher::on(const FunctionRemoved& event) {
  if (!knows(event.function)) {
    ++counters_.ignored_events;
    return;
  }
  for (DevicePool* device_pool : {gpu_.get(), host_.get()}) {
    drop_planned(*device_pool, [&](const Sandbox& one) { return one.function == event.function; });
  }
  reject_queue(event.function,
               {ErrorCode::kNotFound, "the function was removed while this waited"});
  stop_idle(event.function, StopReason::kRetired);
  Flow& flow = flows_[event.function.value];
  flow.registered = false;
  if (flow.device_memory.count == 0) --functions_without_gpu_;
  ranks_stale_ = options_.hybrid.rule == scheduling::HybridRule::kTopShare;
}

}  // namespace lambent::dispatch
