// The part of Dispatcher that brings invocations to their end: refused, rejected in the queue,
// completed, expired.
#include <algorithm>
#include <cstdio>

#include "decide/dispatch/device_pool.h"
#include "decide/dispatch/dispatcher.h"

namespace lambent::dispatch {

using scheduling::Flow;
using scheduling::SandboxSlot;

void Dispatcher::reject_now(InvocationId id, Error error, Duration retry_after) {
  ++counters_.rejected;
  log_.add(CompleteInvocation{.invocation = id,
                              .outcome = Outcome::kRejected,
                              .error = std::move(error),
                              .retry_after = retry_after});
}

void Dispatcher::reject_queued(InvocationSlot slot, Error error) {
  const FunctionId function = queues_[slot].function;
  DevicePool& device_pool = device_pool_of(function);
  queues_.leave(slot);
  device_pool.policy->flow_changed(view_of(device_pool), function, log_.now());
  ++counters_.rejected;
  log_.add(CompleteInvocation{.invocation = queues_[slot].id,
                              .outcome = Outcome::kRejected,
                              .error = std::move(error),
                              .phases = {.queue = log_.now() - queues_[slot].submitted},
                              .wait_reason = queues_[slot].wait_reason});
  queues_.remove(slot);
}

void Dispatcher::reject_queue(FunctionId function, const Error& error) {
  for (InvocationSlot slot = queues_.front(function); slot != kNoInvocation;
       slot = queues_.front(function)) {
    reject_queued(slot, error);
  }
}

// One of this function was refused since too many of it wait.
void Dispatcher::note_shedding(FunctionId function) {
  Flow& flow = flows_[function.value];
  if (flow.sheds || flow.pending < scheduling::kCalm) return;
  flow.sheds = true;
  DevicePool& device_pool = device_pool_of(function);
  device_pool.policy->flow_changed(view_of(device_pool), function, log_.now());
}

void Dispatcher::complete(InvocationSlot slot, Outcome outcome, std::optional<Error> error,
                          std::string error_type) {
  const PendingInvocation& invocation = queues_[slot];
  Phases phases;
  phases.sandbox = invocation.sandbox_time;
  phases.init = invocation.init_time;
  const bool starts =
      invocation.state == InvocationState::kStarting && !waits_for_token(invocation);
  // A start that came to nothing was a start all the same.
  if (starts) phases.sandbox = log_.now() - invocation.dispatched, phases.init = {};
  if (invocation.state == InvocationState::kRunning) {
    phases.memory = memory_time_of(invocation);
    phases.run = log_.now() - invocation.started - phases.memory;
  }
  // Whatever was neither starting nor running was waiting, for a turn or for a token.
  phases.queue =
      log_.now() - invocation.submitted - phases.sandbox - phases.init - phases.memory - phases.run;

  if (outcome == Outcome::kSucceeded) ++counters_.succeeded;
  if (outcome == Outcome::kFunctionError) ++counters_.function_errors;
  if (outcome == Outcome::kRejected) ++counters_.rejected;
  log_.add(CompleteInvocation{.invocation = invocation.id,
                              .outcome = outcome,
                              .error = std::move(error),
                              .error_type = std::move(error_type),
                              .start = invocation.start,
                              .phases = phases,
                              .device = invocation.device,
                              .wait_reason = invocation.wait_reason});
  const FunctionId function = invocation.function;
  const bool was_cpu_variant = invocation.is_cpu_variant();
  leave_processor(slot);
  queues_.remove(slot);
  Flow& flow = flows_[function.value];
  flow.last_activity = log_.now();
  // The policy let it go when it left the queue.
  if (was_cpu_variant) return;
  DevicePool& device_pool = device_pool_of(function);
  if (!flow.has_work())
    flow.active_until = log_.now() + device_pool.policy->grace(view_of(device_pool), function);
  device_pool.policy->finished(view_of(device_pool), function, log_.now());
}

// How long the run of this one was, or is so far, without its memory.
Duration Dispatcher::memory_time_of(const PendingInvocation& invocation) const {
  return invocation.awaits_memory ? log_.now() - invocation.started : invocation.memory_time;
}

void Dispatcher::expire_invocation(InvocationSlot slot) {
  const PendingInvocation& invocation = queues_[slot];
  char text[96];
  if (invocation.state == InvocationState::kStarting) {
    // It has a place, but whoever is to leave that does not.
    if (invocation.wait_reason == scheduling::WaitReason::kNone) {
      queues_[slot].wait_reason = waits_for_moves(invocation)
                                      ? scheduling::WaitReason::kMemoryMoving
                                      : scheduling::WaitReason::kNoSandbox;
    }
    const InvocationId id = invocation.id;
    DevicePool& planned_in = invocation.on_host ? *host_ : *gpu_;
    drop_planned(planned_in,
                 [&](const scheduling::Sandbox& one) { return one.invocation == slot; });
    // A worker that stops has rejected it meanwhile.
    if (!queues_.find(id)) return;
  }
  if (invocation.state == InvocationState::kQueued) {
    std::snprintf(text, sizeof(text), "it waited %.2f seconds for its turn (%s)",
                  to_seconds(log_.now() - invocation.submitted),
                  std::string(name_of(invocation.wait_reason)).c_str());
    reject_queued(slot, {ErrorCode::kDeadlineExceeded, text});
    return;
  }
  ++counters_.timeouts;
  const Duration timeout = log_.now() - invocation.started - invocation.memory_time;
  std::snprintf(text, sizeof(text), "Task timed out after %.2f seconds", to_seconds(timeout));
  const SandboxSlot sandbox = invocation.sandbox;
  DevicePool& device_pool = invocation.on_host ? *host_ : *gpu_;
  // A function that hangs must pay for the time that it took.
  learn_run(invocation, timeout);
  note_host_failure(invocation);
  complete(slot, Outcome::kFunctionError, Error{ErrorCode::kDeadlineExceeded, text},
           "Sandbox.Timeout");
  device_pool.fleet.unassign(sandbox);
  stop_sandbox(device_pool, sandbox, StopReason::kTimedOut);
}

}  // namespace lambent::dispatch
