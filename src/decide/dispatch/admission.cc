#include "decide/dispatch/admission.h"

#include <utility>

namespace lambent::dispatch {

using scheduling::Flow;

namespace {

// Of an invocation that can never run, because no device is large enough.
Error too_large(Bytes device_memory) {
  return {ErrorCode::kFailedPrecondition, "the function asks for " + to_string(device_memory) +
                                              " of device memory and no GPU here has that"};
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
  if (auto refusal = queues_.overload_of(event)) {
    note_shedding(event.function);
    refuse(event.invocation, {ErrorCode::kResourceExhausted, std::move(refusal->message)},
           refusal->retry_after);
    return;
  }
  Flow& flow = flows_[event.function.value];
  const Instant now = log_.now();
  if (flow.last_arrival != kNever) flow.interarrival.learn(now - flow.last_arrival);
  flow.last_arrival = now;
  flow.last_activity = now;
  queues_.add(event, now);
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
    return Error{ErrorCode::kUnavailable, "the worker is stopping; send this to another one"};
  }
  if (!overflow_.may_wait(flow)) return too_large(flow.device_memory);
  return std::nullopt;
}

void Admission::refuse(InvocationId id, Error error, Duration retry_after) {
  ++log_.counters().rejected;
  log_.add(CompleteInvocation{.invocation = id,
                              .outcome = Outcome::kRejected,
                              .error = std::move(error),
                              .retry_after = retry_after});
}

void Admission::reject(InvocationSlot slot, Error error) {
  queues_.leave(slot);
  const PendingInvocation& invocation = queues_[slot];
  tell_policy(invocation.function);
  ++log_.counters().rejected;
  log_.add(CompleteInvocation{.invocation = invocation.id,
                              .outcome = Outcome::kRejected,
                              .error = std::move(error),
                              .phases = {.queue = log_.now() - invocation.submitted},
                              .wait_reason = invocation.wait_reason});
  queues_.remove(slot);
}

void Admission::reject_all(FunctionId function, const Error& error) {
  for (InvocationSlot slot = queues_.front(function); slot != kNoInvocation;
       slot = queues_.front(function)) {
    reject(slot, error);
  }
}

void Admission::reject_unservable(FunctionId function) {
  const Flow& flow = flows_[function.value];
  if (!overflow_.may_wait(flow)) reject_all(function, too_large(flow.device_memory));
}

void Admission::reject_unless_it_may_wait(InvocationSlot slot) {
  const PendingInvocation& invocation = queues_[slot];
  const Flow& flow = flows_[invocation.function.value];
  if (!flow.registered) {
    reject(slot, {ErrorCode::kNotFound, "the function was removed while this waited"});
  } else if (!overflow_.may_wait(flow)) {
    reject(slot, too_large(flow.device_memory));
  } else if (draining_ && !invocation.asynchronous) {
    reject(slot, {ErrorCode::kUnavailable, "the worker is stopping"});
  }
}

void Admission::reject_synchronous(FunctionId function) {
  InvocationSlot slot = queues_.front(function);
  while (slot != kNoInvocation) {
    const InvocationSlot next = queues_[slot].later;
    if (!queues_[slot].asynchronous) {
      reject(slot, {ErrorCode::kUnavailable, "the worker is stopping"});
    }
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
