#include "decide/dispatch/admission.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/domain/limits.h"
#include "core/domain/stopping.h"

namespace lambent::dispatch {

using scheduling::Flow;
using scheduling::TenantAccount;
using scheduling::WaitReason;

namespace {

// Of an invocation that can never run, because no device is large enough, or too few are.
Error too_large(const Flow& flow) {
  const std::string memory = to_string(flow.device_memory) + " of device memory";
  return {ErrorCode::kFailedPrecondition,
          flow.gpu_count > 1 ? "the function asks for " + std::to_string(flow.gpu_count) +
                                   " GPUs with " + memory + " each, and there are fewer here"
                             : "the function asks for " + memory + " and no GPU here has that"};
}

// Of one that can never run, because a quota of its tenant is too small for it.
Error beyond_quota(WaitReason quota, const Flow& flow, const TenantAccount& tenant) {
  std::string what;
  if (quota == WaitReason::kTenantGpuMemory) {
    what = "the function asks for " + to_string(flow.whole_device_memory()) +
           " of GPU memory, and its tenant may have " + to_string(*tenant.quotas.gpu_memory) +
           " (gpu_memory)";
  } else if (quota == WaitReason::kTenantHostMemory) {
    what = "a sandbox of the function may take " + to_string(flow.host_memory) +
           " of the host's memory, and its tenant may have " +
           to_string(*tenant.quotas.host_memory) + " (host_memory)";
  } else if (quota == WaitReason::kTenantGpuTime) {
    what = "the tenant may use no GPU time (gpu_time_per_hour)";
  } else {
    what = "the tenant may run no invocations (concurrency)";
  }
  return {ErrorCode::kFailedPrecondition, what + "; ask an operator for a larger quota"};
}

}  // namespace

void Admission::submit(const InvocationSubmitted& event) {
  Counters& counters = log_.counters();
  if (queues_.find(event.invocation)) {
    ++counters.ignored_events;
    return;
  }
  ++counters.submitted;
  if (const auto refusal = refusal_of(event)) {
    refuse(event.invocation, *refusal);
    return;
  }
  if (auto refusal = hour_refusal_of(event)) return refuse(event.invocation, *std::move(refusal));
  auto refusal = control_.refusal_of(event);
  if (!refusal) refusal = queues_.overload_of(event);
  if (refusal) {
    note_shedding(event.function);
    return refuse(event.invocation, *std::move(refusal));
  }
  Flow& flow = flows_[event.function.value];
  const Instant now = log_.now();
  if (processor_of(flow) == Processor::kGpu) {
    pools_.gpu.fleet().foresight().arrived(event.function, flow, now);
  }
  if (flow.last_arrival != kNever) flow.interarrival.learn(now - flow.last_arrival);
  flow.last_arrival = now;
  flow.last_activity = now;
  control_.added(queues_.add(event, now));
  pools_.of(flow).scheduler().enqueued(event.function);
}

void Admission::cancel(const InvocationCancelled& event) {
  const auto slot = queues_.find(event.invocation);
  if (!slot || queues_[*slot].state != InvocationState::kQueued) {
    ++log_.counters().ignored_events;
    return;
  }
  reject(*slot, {ErrorCode::kCancelled, "the client went away before it ran"});
}

std::optional<Error> Admission::refusal_of(const InvocationSubmitted& event) const {
  if (!is_registered(flows_, event.function)) {
    return Error{ErrorCode::kNotFound, "the function does not exist"};
  }
  const Flow& flow = flows_[event.function.value];
  if (draining_ && !event.asynchronous) {
    return stopping_error(event.within_run);
  }
  return never_served(flow);
}

std::optional<Error> Admission::never_served(const Flow& flow) const {
  if (!overflow_.may_wait(flow)) return too_large(flow);
  const scheduling::Policy& policy = pools_.gpu.scheduler().policy();
  if (flow.gpu_count > 1 && !policy.places_gangs()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the function takes several GPUs together, and the policy " +
                     std::string(policy.name()) +
                     " gives functions GPUs one by one; run the worker with density"};
  }
  const WaitReason quota = tenants_.never_allows(flow);
  if (quota == WaitReason::kNone) return std::nullopt;
  const bool of_gpu = quota == WaitReason::kTenantGpuMemory || quota == WaitReason::kTenantGpuTime;
  if (of_gpu && overflow_.may_go_to_host(flow)) return std::nullopt;
  return beyond_quota(quota, flow, tenants_[flow.tenant_slot]);
}

// What runs and waits of its tenant is taken to last as long as its own function's runs do. What is
// acknowledged, or waits as long as it must, is not asked about.
std::optional<scheduling::Refusal> Admission::hour_refusal_of(
    const InvocationSubmitted& event) const {
  const Flow& flow = flows_[event.function.value];
  if (event.asynchronous || event.acknowledged || processor_of(flow) != Processor::kGpu) {
    return std::nullopt;
  }
  if (flow.tenant_slot >= tenants_.size() || overflow_.may_go_to_host(flow)) return std::nullopt;
  const TenantAccount& tenant = tenants_[flow.tenant_slot];
  const auto& limit = tenant.quotas.gpu_time_per_hour;
  if (!limit) return std::nullopt;
  const auto before = static_cast<int64_t>(
      std::min<uint64_t>(tenant.running + flow.pending, limits::kQueuedInvocations));
  const Duration longest = scheduling::SlidingHour::kHour * 24;
  const Duration one = std::min(flow.execution.mean_or(Duration(0)), longest);
  const Instant now = log_.now();
  const Instant then = tenant.hour.when_below(*limit, one * before, now);
  const Duration most = scheduling::SlidingHour::kHour + scheduling::SlidingHour::kStep;
  const Duration wait = then == kNever ? most : then - now;
  if (wait <= std::min(options_.longest_wait, options_.queue_wait)) return std::nullopt;
  char text[200];
  std::snprintf(text, sizeof(text),
                "the tenant has used %.1f of the %.1f seconds of GPU time that it may use in an "
                "hour (gpu_time_per_hour); enough of it comes back in about %.0f seconds",
                to_seconds(tenant.hour.used_at(now)), to_seconds(*limit), to_seconds(wait));
  return scheduling::Refusal{text, std::max<Duration>(wait, seconds(1)), "Overload.TenantGpuTime"};
}

void Admission::refuse(InvocationId id, scheduling::Refusal refusal) {
  refuse(id, {ErrorCode::kResourceExhausted, std::move(refusal.message)}, refusal.retry_after,
         refusal.error_type);
}

void Admission::refuse(InvocationId id, Error error, Duration retry_after,
                       std::string_view error_type) {
  ++log_.counters().rejected;
  log_.add(CompleteInvocation{.invocation = id,
                              .outcome = Outcome::kRejected,
                              .error = std::move(error),
                              .retry_after = retry_after,
                              .error_type = std::string(error_type)});
}

void Admission::give_up(InvocationSlot slot) {
  if (auto refusal = control_.late(slot)) {
    note_shedding(queues_[slot].function);
    return reject(slot, {ErrorCode::kResourceExhausted, std::move(refusal->message)},
                  refusal->retry_after, refusal->error_type);
  }
  const PendingInvocation& invocation = queues_[slot];
  // Its time was bounded while its function was overloaded, and that is over.
  const Instant latest = invocation.submitted + options_.longest_wait;
  if (log_.now() < latest) return queues_.extend_wait(slot, latest);
  char text[96];
  std::snprintf(text, sizeof(text), "it waited %.2f seconds for its turn (%s)",
                to_seconds(log_.now() - invocation.submitted),
                std::string(name_of(invocation.wait.told(log_.now()))).c_str());
  reject(slot, {ErrorCode::kDeadlineExceeded, text});
}

void Admission::reject(InvocationSlot slot, Error error, Duration retry_after,
                       std::string_view error_type) {
  queues_.leave(slot, log_.now());
  control_.left(queues_[slot].function);
  const PendingInvocation& invocation = queues_[slot];
  tell_policy(invocation.function);
  ++log_.counters().rejected;
  log_.add(CompleteInvocation{.invocation = invocation.id,
                              .outcome = Outcome::kRejected,
                              .error = std::move(error),
                              .retry_after = retry_after,
                              .error_type = std::string(error_type),
                              .phases = {.queue = log_.now() - invocation.submitted},
                              .wait_reason = invocation.wait.told(log_.now())});
  queues_.remove(slot);
}

void Admission::reject_all(FunctionId function, const Error& error) {
  for (InvocationSlot slot = queues_.front(function); slot != kNoInvocation;
       slot = queues_.front(function)) {
    reject(slot, error);
  }
}

void Admission::reject_unservable(FunctionId function) {
  if (const auto error = never_served(flows_[function.value])) reject_all(function, *error);
}

void Admission::reject_unless_it_may_wait(InvocationSlot slot) {
  const PendingInvocation& invocation = queues_[slot];
  const Flow& flow = flows_[invocation.function.value];
  if (!flow.registered) {
    reject(slot, {ErrorCode::kNotFound, "the function was removed while this waited"});
  } else if (auto error = never_served(flow)) {
    reject(slot, *std::move(error));
  } else if (draining_ && !invocation.asynchronous) {
    reject(slot, stopping_error(invocation.within_run));
  }
}

void Admission::reject_synchronous(FunctionId function) {
  InvocationSlot slot = queues_.front(function);
  while (slot != kNoInvocation) {
    const InvocationSlot next = queues_[slot].later;
    if (!queues_[slot].asynchronous) reject(slot, stopping_error(queues_[slot].within_run));
    slot = next;
  }
}

// One of this function was refused since too many of it wait.
void Admission::note_shedding(FunctionId function) {
  Flow& flow = flows_[function.value];
  if (flow.sheds || flow.pending < scheduling::kCalm) return;
  flow.sheds = true;
  tell_policy(function);
}

void Admission::tell_policy(FunctionId function) {
  pools_.of(flows_[function.value]).scheduler().flow_changed(function);
}

}  // namespace lambent::dispatch
