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
  emit(CompleteInvocation{.invocation = id,
                          .outcome = Outcome::kRejected,
                          .error = std::move(error),
                          .retry_after = retry_after});
}

void Dispatcher::reject_queued(InvocationSlot slot, Error error) {
  const FunctionId function = invocations_[slot].function;
  DevicePool& device_pool = device_pool_of(function);
  leave_queue(slot);
  device_pool.policy->flow_changed(view_of(device_pool), function, now_);
  invocation_deadlines_.erase(slot);
  ++counters_.rejected;
  emit(CompleteInvocation{.invocation = invocations_[slot].id,
                          .outcome = Outcome::kRejected,
                          .error = std::move(error),
                          .phases = {.queue = now_ - invocations_[slot].submitted},
                          .wait_reason = invocations_[slot].wait_reason});
  invocations_.remove(slot);
}

void Dispatcher::reject_queue(FunctionId function, const Error& error) {
  for (InvocationSlot slot = invocations_.front(function); slot != kNoInvocation;
       slot = invocations_.front(function)) {
    reject_queued(slot, error);
  }
}

// It waits: again, or from now on.
void Dispatcher::note_queued(const PendingInvocation& invocation) {
  Flow& flow = flows_[invocation.function.value];
  ++flow.pending;
  ++queued_;
  if (!invocation.holds_connection()) return;
  ++flow.pending_synchronous;
  ++queued_synchronous_;
}

void Dispatcher::leave_queue(InvocationSlot slot) {
  const FunctionId function = invocations_[slot].function;
  Flow& flow = flows_[function.value];
  invocations_.unlink(slot);
  --flow.pending;
  if (flow.pending == 0) flow.last_turn = kNever;
  if (flow.pending < scheduling::kCalm) flow.sheds = false;
  --queued_;
  if (invocations_[slot].holds_connection()) {
    --flow.pending_synchronous;
    --queued_synchronous_;
  }
  --device_pool_of(function).pending;
  note_waiting(function);
  const InvocationSlot head = invocations_.front(function);
  if (head == kNoInvocation || invocations_[head].arrival == flow.oldest) return;
  flow.oldest = invocations_[head].arrival;
  flow.oldest_since = invocations_[head].submitted;
  new_heads_.push_back(function);
}

// One of this function was refused since too many of it wait.
void Dispatcher::note_shedding(FunctionId function) {
  Flow& flow = flows_[function.value];
  if (flow.sheds || flow.pending < scheduling::kCalm) return;
  flow.sheds = true;
  DevicePool& device_pool = device_pool_of(function);
  device_pool.policy->flow_changed(view_of(device_pool), function, now_);
}

void Dispatcher::complete(InvocationSlot slot, Outcome outcome, std::optional<Error> error,
                          std::string error_type) {
  const PendingInvocation& invocation = invocations_[slot];
  Phases phases;
  phases.sandbox = invocation.sandbox_time;
  phases.init = invocation.init_time;
  const bool starts =
      invocation.state == InvocationState::kStarting && !waits_for_token(invocation);
  // A start that came to nothing was a start all the same.
  if (starts) phases.sandbox = now_ - invocation.dispatched, phases.init = {};
  if (invocation.state == InvocationState::kRunning) {
    phases.memory = memory_time_of(invocation);
    phases.run = now_ - invocation.started - phases.memory;
  }
  // Whatever was neither starting nor running was waiting, for a turn or for a token.
  phases.queue =
      now_ - invocation.submitted - phases.sandbox - phases.init - phases.memory - phases.run;

  if (outcome == Outcome::kSucceeded) ++counters_.succeeded;
  if (outcome == Outcome::kFunctionError) ++counters_.function_errors;
  if (outcome == Outcome::kRejected) ++counters_.rejected;
  emit(CompleteInvocation{.invocation = invocation.id,
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
  invocation_deadlines_.erase(slot);
  invocations_.remove(slot);
  Flow& flow = flows_[function.value];
  flow.last_activity = now_;
  // The policy let it go when it left the queue.
  if (was_cpu_variant) return;
  DevicePool& device_pool = device_pool_of(function);
  if (!flow.has_work())
    flow.active_until = now_ + device_pool.policy->grace(view_of(device_pool), function);
  device_pool.policy->finished(view_of(device_pool), function, now_);
}

// How long the run of this one was, or is so far, without its memory.
Duration Dispatcher::memory_time_of(const PendingInvocation& invocation) const {
  return invocation.awaits_memory ? now_ - invocation.started : invocation.memory_time;
}

void Dispatcher::expire_invocation(InvocationSlot slot) {
  const PendingInvocation& invocation = invocations_[slot];
  char text[96];
  if (invocation.state == InvocationState::kStarting) {
    // It has a place, but whoever is to leave that does not.
    if (invocation.wait_reason == scheduling::WaitReason::kNone) {
      invocations_[slot].wait_reason = waits_for_moves(invocation)
                                           ? scheduling::WaitReason::kMemoryMoving
                                           : scheduling::WaitReason::kNoSandbox;
    }
    const InvocationId id = invocation.id;
    DevicePool& planned_in = invocation.on_host ? *host_ : *gpu_;
    drop_planned(planned_in,
                 [&](const scheduling::Sandbox& one) { return one.invocation == slot; });
    // A worker that stops has rejected it meanwhile.
    if (!invocations_.find(id)) return;
  }
  if (invocation.state == InvocationState::kQueued) {
    std::snprintf(text, sizeof(text), "it waited %.2f seconds for its turn (%s)",
                  to_seconds(now_ - invocation.submitted),
                  std::string(name_of(invocation.wait_reason)).c_str());
    reject_queued(slot, {ErrorCode::kDeadlineExceeded, text});
    return;
  }
  ++counters_.timeouts;
  const Duration timeout = now_ - invocation.started - invocation.memory_time;
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
