// The part of Dispatcher for functions that run on either processor: what of them leaves the GPUs'
// queue for the host, and what is learnt there.
#include <algorithm>

#include "decide/dispatch/device_pool.h"
#include "decide/dispatch/dispatcher.h"

namespace lambent::dispatch {

using scheduling::Flow;
using scheduling::HostChoice;
using scheduling::HostReason;
using scheduling::HybridRule;

// After both device pools have decided, so that functions without GPU go first and a GPU that is
// free is used. One by one: each that leaves makes the queue shorter for those behind it.
void Dispatcher::send_to_host() {
  ask_again_ = kNever;
  while (!draining_ && !queues_.waiting_variants().empty()) {
    const scheduling::View gpu = view_of(*gpu_);
    const std::vector<scheduling::GpuRun> runs = runs_on_gpus();
    const scheduling::HybridView view{.gpu = gpu,
                                      .host = host_->fleet,
                                      .waiting = queues_.waiting(),
                                      .waiting_variants = queues_.waiting_variants(),
                                      .runs = runs,
                                      .reserved = reserved_on_host(),
                                      .away_since = away_since_};
    const auto advice = scheduling::choose_for_host(options_.hybrid, view, log_.now());
    ask_again_ = advice.ask_again;
    if (!advice.choice) return;
    dispatch_on_host(*advice.choice);
    // Without it another flow may be the furthest behind, or fit.
    if (queues_.pending(Processor::kGpu) > 0) decide(*gpu_);
  }
}

void Dispatcher::dispatch_on_host(const HostChoice& choice) {
  const InvocationSlot slot = queues_.front(choice.function);
  flows_[choice.function.value].took_turn(log_.now());
  queues_.leave(slot);
  Flow& flow = flows_[choice.function.value];
  ++flow.on_host;
  flow.last_activity = log_.now();
  // Its last one left the GPUs' queue: as after a run there, more is expected for a while.
  if (flow.max_concurrency > 0 && !flow.has_work()) {
    flow.active_until = log_.now() + gpu_->policy->grace(view_of(*gpu_), choice.function);
  }
  gpu_->policy->flow_changed(view_of(*gpu_), choice.function, log_.now());
  PendingInvocation& invocation = queues_[slot];
  invocation.dispatched = log_.now();
  invocation.device = scheduling::kHostDevice;
  invocation.host_reason = choice.reason;
  invocation.expected_with_gpu = choice.with_gpu;
  invocation.expected_with_host = choice.with_host;
  if (choice.reason == HostReason::kTrial) ++counters_.host_trials;
  if (choice.place.warm == scheduling::kNoSandbox) {
    start_in_new_sandbox(*host_, slot, choice.place);
  } else {
    run(*host_, choice.place.warm, slot);
  }
}

// What variants leave to functions that have no other place: a quarter, and of two or three one.
unsigned Dispatcher::reserved_on_host() const {
  if (functions_without_gpu_ == 0 || options_.host_concurrency < 2) return 0;
  return std::max(1U, options_.host_concurrency / 4);
}

// It was given a place on a GPU; its end is expected after what was learnt of its function.
void Dispatcher::expect_end(PendingInvocation& invocation, bool warm) {
  const Flow& flow = flows_[invocation.function.value];
  const Duration setup = warm ? Duration(0) : flow.cold_start.mean_or(seconds(1));
  invocation.expected_end =
      log_.now() + setup + scheduling::expected_gpu_time(flow).value_or(seconds(1));
}

std::vector<scheduling::GpuRun> Dispatcher::runs_on_gpus() const {
  std::vector<scheduling::GpuRun> runs;
  gpu_runs_.for_each([&](InvocationSlot slot) {
    runs.push_back({queues_[slot].function, queues_[slot].expected_end});
  });
  return runs;
}

// It is over, or waits again.
void Dispatcher::leave_processor(InvocationSlot slot) {
  PendingInvocation& invocation = queues_[slot];
  Flow& flow = flows_[invocation.function.value];
  --(invocation.is_cpu_variant() ? flow.on_host : flow.in_flight);
  invocation.host_reason = HostReason::kNone;
  invocation.expected_with_gpu = {};
  invocation.expected_with_host = {};
  if (invocation.expected_end == kNever) return;
  gpu_runs_.erase(slot);
  invocation.expected_end = kNever;
}

void Dispatcher::learn_run(const PendingInvocation& invocation, Duration execution) {
  Flow& flow = flows_[invocation.function.value];
  scheduling::RunningMean* mean = &flow.execution;
  if (flow.device_memory.count > 0 && invocation.on_host) {
    mean = &flow.host_execution;
    flow.last_host_run = log_.now();
  } else if (flow.device_memory.count == 0 && !invocation.on_host) {
    return;  // it had a GPU, and its function has none any more
  }
  mean->learn(execution);
  // Ranks follow what is learnt, less often the more is known.
  const bool is_news = (mean->samples() & (mean->samples() - 1)) == 0;
  if (is_news && flow.has_cpu_variant && options_.hybrid.rule == HybridRule::kTopShare) {
    ranks_stale_ = true;
  }
}

// It failed on the host: the function keeps away from there for a while. What was dispatched before
// the last failure was noted belongs to the same incident.
void Dispatcher::note_host_failure(const PendingInvocation& invocation) {
  Flow& flow = flows_[invocation.function.value];
  if (!invocation.is_cpu_variant() || invocation.dispatched < flow.host_failed) return;
  flow.host_failed = log_.now();
  ++flow.host_failures;
}

void Dispatcher::note_host_success(const PendingInvocation& invocation) {
  Flow& flow = flows_[invocation.function.value];
  if (!invocation.is_cpu_variant() || invocation.dispatched < flow.host_failed) return;
  flow.host_failures = 0;
}

// What the GPUs' policy may run of it at once: none where the host serves it alone.
unsigned Dispatcher::gpu_concurrency_of(const Flow& flow, bool outside_top_share) const {
  const bool on_either = flow.has_cpu_variant && options_.hybrid.rule != HybridRule::kOff;
  const bool host_alone =
      on_either && (outside_top_share || !gpu_->fleet.could_ever_fit(flow.device_memory));
  return host_alone ? 0 : flow.declared_concurrency;
}

void Dispatcher::rank_functions() {
  ranks_stale_ = false;
  const std::vector<bool> outside =
      scheduling::outside_top_share(flows_, options_.hybrid.gpu_share, log_.now());
  for (uint32_t id = 0; id < flows_.size(); ++id) {
    Flow& flow = flows_[id];
    if (!flow.registered || !flow.has_cpu_variant) continue;
    const unsigned concurrency = gpu_concurrency_of(flow, outside[id]);
    if (concurrency == flow.max_concurrency) continue;
    flow.max_concurrency = concurrency;
    gpu_->policy->flow_changed(view_of(*gpu_), FunctionId{id}, log_.now());
  }
}

// Whether there is anything here that could serve it, one day.
bool Dispatcher::may_wait(const Flow& flow) const {
  if (flow.device_memory.count == 0 || gpu_->fleet.could_ever_fit(flow.device_memory)) return true;
  return flow.has_cpu_variant && options_.hybrid.rule != HybridRule::kOff;
}

// Of the first in the flow's queue.
scheduling::WaitReason Dispatcher::why_waiting(FunctionId function) const {
  if (flows_[function.value].max_concurrency == 0) return scheduling::WaitReason::kHostBusy;
  const DevicePool& device_pool = device_pool_of(function);
  return device_pool.policy->why_waiting(view_of(device_pool), function);
}

}  // namespace lambent::dispatch
