#include "decide/dispatch/function_changes.h"

#include <algorithm>
#include <utility>

#include "core/domain/function_limits.h"

namespace lambent::dispatch {

using scheduling::Flow;
using scheduling::RunningMean;
using scheduling::Sandbox;
using scheduling::SandboxSlot;

namespace {

// Beyond it, instants would not fit.
constexpr Duration kLongestKeepAlive = std::chrono::hours(24 * 366);

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

RunningMean cold_start_of(Duration mean, uint64_t starts) {
  return RunningMean(mean, mean.count() > 0 ? std::max<uint64_t>(starts, 1) : 0);
}

uint8_t gpu_count_of(const FunctionProfile& profile) {
  if (profile.device_memory.count == 0) return 1;
  return static_cast<uint8_t>(std::clamp(profile.gpu_count, 1U, scheduling::kMostDevicesOfGangs));
}

// With what was learnt of it before a restart.
Flow new_flow(const FunctionProfile& profile, Instant now) {
  Flow flow;
  flow.execution = RunningMean(profile.mean_execution, profile.completed);
  flow.interarrival = RunningMean(profile.mean_interarrival, profile.completed);
  flow.cold_start = cold_start_of(profile.mean_cold_start, profile.cold_starts);
  // A journal tells the rest only of those that have a variant.
  if (profile.has_cpu_variant) {
    flow.host_execution = RunningMean(profile.mean_host_execution, profile.completed_on_host);
    flow.host_cold_start = cold_start_of(profile.mean_host_cold_start, profile.host_cold_starts);
  }
  flow.last_host_run = now;
  return flow;
}

}  // namespace

void FunctionChanges::registered(const FunctionRegistered& event) {
  const FunctionProfile& profile = event.profile;
  if (profile.id.value >= flows_.size()) flows_.resize(profile.id.value + 1);
  Flow& flow = flows_[profile.id.value];
  if (flow.registered && profile.revision < flow.revision) {
    ++log_.counters().ignored_events;
    return;
  }
  drop_outdated_plans(profile);
  // If it now runs elsewhere (with or without GPU) it leaves its old device pool with all that it
  // has.
  const bool uses_gpu = profile.device_memory.count > 0;
  const bool moves = (processor_of(flow) == Processor::kGpu) != uses_gpu;
  if (flow.registered) overflow_.remove_function(flow);
  const bool had_work = flow.has_work();
  const bool changes = !flow.registered || profile.revision != flow.revision;
  const bool may_serve = flow.registered && !moves && profile.device_memory == flow.device_memory &&
                         gpu_count_of(profile) == flow.gpu_count &&
                         serves_calls(pools_.of(flow), profile.id, flow.revision);
  const Queues::Waiting waiting = queues_.uncount(profile.id);
  if (moves && had_work) leave_pool(profile.id);
  if (!flow.registered) {
    flow = new_flow(profile, log_.now());
    pools_.gpu.fleet().forget(profile.id);
    count_runs_of(profile.id);
  } else if (moves) {
    move_statistics(flow, uses_gpu, log_.now());
  }
  set_limits(profile);
  if (flow.in_flight + flow.on_host > 0) tenants_.count_again(flows_);
  overflow_.add_function(flow);

  queues_.count(profile.id, waiting);
  pools_.of(flow).scheduler().flow_changed(profile.id);
  admission_.reject_unservable(profile.id);
  if (!instances_.registered(profile.id, changes, may_serve)) {
    for (DevicePool* pool : pools_.all()) pool->retire_others(profile.id, flow.revision);
  }
  if (uses_gpu) pools_.gpu.plan_look(profile.id);
}

// What was planned for the function as it was needs another place.
void FunctionChanges::drop_outdated_plans(const FunctionProfile& profile) {
  for (DevicePool* pool : pools_.all()) {
    const Bytes memory = pool->is_host() ? Bytes(0) : profile.device_memory;
    const bool is_cpu_variant = pool->is_host() && profile.device_memory.count > 0;
    placements_.drop_planned(*pool, [&](const Sandbox& sandbox) {
      return sandbox.function == profile.id &&
             (sandbox.revision != profile.revision || sandbox.memory != memory ||
              (!pool->is_host() && sandbox.devices() != gpu_count_of(profile)) ||
              (sandbox.has_invocation &&
               queues_[sandbox.invocation].is_cpu_variant() != is_cpu_variant));
    });
  }
}

void FunctionChanges::leave_pool(FunctionId function) {
  Flow& flow = flows_[function.value];
  const uint32_t in_flight = std::exchange(flow.in_flight, 0);
  pools_.of(flow).scheduler().flow_changed(function);
  flow.in_flight = in_flight;
}

// Whether sandboxes of that revision are ready.
bool FunctionChanges::serves_calls(const DevicePool& pool, FunctionId function,
                                   uint64_t revision) const {
  const auto& all = pool.fleet().all();
  return std::any_of(all.begin(), all.end(), [&](SandboxSlot slot) {
    const Sandbox& one = pool.fleet().sandbox(slot);
    const bool is_ready = one.state == scheduling::SandboxState::kIdle ||
                          one.state == scheduling::SandboxState::kBusy;
    return one.function == function && one.revision == revision && is_ready;
  });
}

// Invocations of a function of the same id that was removed may still run: they count.
void FunctionChanges::count_runs_of(FunctionId function) {
  Flow& flow = flows_[function.value];
  for (const DevicePool* pool : pools_.all()) {
    for (const SandboxSlot slot : pool->fleet().all()) {
      const Sandbox& sandbox = pool->fleet().sandbox(slot);
      if (sandbox.function != function || !sandbox.has_invocation) continue;
      ++(queues_[sandbox.invocation].is_cpu_variant() ? flow.on_host : flow.in_flight);
    }
  }
}

void FunctionChanges::set_limits(const FunctionProfile& profile) {
  Flow& flow = flows_[profile.id.value];
  const bool uses_gpu = profile.device_memory.count > 0;
  flow.registered = true;
  flow.tenant = profile.tenant;
  flow.tenant_slot = tenants_.enter(profile.tenant);
  flow.revision = profile.revision;
  flow.weight = profile.weight;
  flow.declared_concurrency = std::max(1U, profile.max_concurrency);
  if (!uses_gpu) {
    // No function has the whole of the host.
    const unsigned others = std::max(1U, options_.host_concurrency / 4);
    const unsigned most = std::max(1U, options_.host_concurrency - others);
    flow.declared_concurrency = std::min(flow.declared_concurrency, most);
  }
  flow.device_memory = profile.device_memory;
  flow.gpu_count = gpu_count_of(profile);
  flow.host_memory = profile.host_memory;
  flow.timeout = profile.timeout;
  flow.max_queue_time = profile.max_queue_time;
  flow.account = profile.account;
  const bool is_gang = flow.gpu_count > 1;
  flow.min_instances = profile.min_instances;
  flow.keep_alive = std::clamp(profile.keep_alive, Duration(0), kLongestKeepAlive);
  flow.sandbox_concurrency = static_cast<uint16_t>(
      std::clamp(profile.sandbox_concurrency, 1U, limits::kMostSandboxConcurrency));
  flow.memory_moves = profile.memory_moves && (!is_gang || options_.fleet.moves_gangs);
  flow.checkpoints = profile.checkpoints && !is_gang;
  flow.has_cpu_variant = profile.has_cpu_variant && uses_gpu && !is_gang;
  flow.gpu_speedup = flow.has_cpu_variant ? profile.gpu_speedup : 0;
  // What runs of an older revision fails for that one.
  flow.host_failures = 0;
  flow.host_failed = log_.now();
  flow.max_concurrency = overflow_.gpu_concurrency_of(flow);
}

void FunctionChanges::removed(const FunctionRemoved& event) {
  if (!is_registered(flows_, event.function)) {
    ++log_.counters().ignored_events;
    return;
  }
  for (DevicePool* pool : pools_.all()) {
    placements_.drop_planned(*pool,
                             [&](const Sandbox& one) { return one.function == event.function; });
  }
  admission_.reject_all(event.function,
                        {ErrorCode::kNotFound, "the function was removed while this waited"});
  for (DevicePool* pool : pools_.all()) pool->stop_idle(event.function, StopReason::kRetired);
  instances_.removed(event.function);
  Flow& flow = flows_[event.function.value];
  flow.registered = false;
  overflow_.remove_function(flow);
}

}  // namespace lambent::dispatch
