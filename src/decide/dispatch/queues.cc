#include "decide/dispatch/queues.h"

#include <algorithm>

namespace lambent::dispatch {

using scheduling::Flow;

FunctionId first_after(FunctionId function, const scheduling::FlowSet& one,
                       const scheduling::FlowSet& other) {
  if (one.empty()) return other.after(function);
  if (other.empty()) return one.after(function);
  const FunctionId of_one = one.after(function);
  const FunctionId of_other = other.after(function);
  // Both count on from it, around the end.
  const uint32_t next = function.value + 1;
  return of_one.value - next < of_other.value - next ? of_one : of_other;
}

std::optional<scheduling::Refusal> Queues::overload_of(const InvocationSubmitted& event) const {
  if (event.acknowledged) return std::nullopt;
  return scheduling::refusal_of(
      {.asynchronous = event.asynchronous, .within_run = event.within_run},
      scheduling::queue_of(flows_[event.function.value]),
      {.all = queued_, .synchronous = queued_synchronous_},
      {.per_function = options_.queued_per_function,
       .all = options_.queued_invocations,
       .synchronous = options_.queued_synchronous,
       .wait = longest_queue(event.function)});
}

// How long its queue may be, in time.
Duration Queues::longest_queue(FunctionId function) const {
  const Duration bound = max_queue_time(function);
  const bool is_given = bound != scheduling::kLearntQueueTime && bound != scheduling::kNoQueueTime;
  return is_given ? bound : options_.queue_wait;
}

void Queues::bound_wait(InvocationSlot slot, Instant until, Instant now) {
  const Instant before = deadlines_.of(slot);
  if (until < before) deadlines_.put(slot, std::max(until, now));
}

InvocationSlot Queues::add(const InvocationSubmitted& event, Instant now) {
  Flow& flow = flows_[event.function.value];
  const InvocationSlot slot = table_.add(event.invocation);
  PendingInvocation& invocation = table_[slot];
  invocation.function = event.function;
  invocation.asynchronous = event.asynchronous;
  invocation.acknowledged = event.acknowledged;
  invocation.within_run = event.within_run;
  invocation.arrival = ++arrivals_;
  invocation.submitted = now;
  invocation.wait = WaitRecord(options_.tells_longest_wait);
  if (flow.pending > 0) invocation.wait.begin(scheduling::WaitReason::kOwnQueue, now);
  table_.push_back(event.function, slot);
  if (invocation.has_client()) deadlines_.put(slot, now + options_.longest_wait);

  if (flow.pending == 0) {
    flow.oldest = invocation.arrival;
    flow.oldest_since = now;
    flow.begin_queue(now);
    new_heads_.push_back(event.function);
  }
  note_queued(invocation);
  return slot;
}

void Queues::leave(InvocationSlot slot, Instant now) {
  const FunctionId function = table_[slot].function;
  Flow& flow = flows_[function.value];
  table_.unlink(slot);
  table_[slot].wait.end(now);
  --flow.pending;
  if (flow.pending == 0) flow.last_turn = kNever;
  if (flow.pending < scheduling::kCalm) flow.sheds = false;
  --queued_;
  if (table_[slot].holds_connection()) {
    --flow.pending_synchronous;
    --queued_synchronous_;
  }
  --pending_[index_of(processor_of(flow))];
  note_waiting(function);
  const InvocationSlot head = front(function);
  if (head == kNoInvocation || table_[head].arrival == flow.oldest) return;
  flow.oldest = table_[head].arrival;
  flow.oldest_since = table_[head].submitted;
  new_heads_.push_back(function);
}

void Queues::put_back(InvocationSlot slot, bool is_new_wait, Instant now) {
  const PendingInvocation& invocation = table_[slot];
  table_.put_back(invocation.function, slot);
  if (!invocation.has_client()) {
    deadlines_.erase(slot);
  } else if (is_new_wait) {
    deadlines_.put(slot, now + options_.longest_wait);
  }
  Flow& flow = flows_[invocation.function.value];
  // It took its turn for nothing: the next one's is not measured from there.
  flow.last_turn = kNever;
  const PendingInvocation& head = table_[front(invocation.function)];
  flow.oldest = head.arrival;
  flow.oldest_since = head.submitted;
  new_heads_.push_back(invocation.function);
  note_queued(invocation);
}

void Queues::remove(InvocationSlot slot) {
  deadlines_.erase(slot);
  table_.remove(slot);
}

Queues::Waiting Queues::uncount(FunctionId function) {
  Flow& flow = flows_[function.value];
  const Waiting waiting{flow.pending, flow.pending_synchronous};
  flow.pending = 0;
  flow.pending_synchronous = 0;
  pending_[index_of(processor_of(flow))] -= waiting.pending;
  return waiting;
}

void Queues::count(FunctionId function, Waiting waiting) {
  Flow& flow = flows_[function.value];
  flow.pending = waiting.pending;
  flow.pending_synchronous = waiting.synchronous;
  pending_[index_of(processor_of(flow))] += waiting.pending;
  note_waiting(function);
}

void Queues::start_timeout(InvocationSlot slot, Instant now) {
  const Duration timeout = flows_[table_[slot].function.value].timeout;
  if (timeout.count() > 0) {
    deadlines_.put(slot, now + timeout);
  } else {
    deadlines_.erase(slot);
  }
}

void Queues::archive(StateArchive& archive) {
  table_.archive(archive, options_.tells_longest_wait);
  archive.field(queued_);
  archive.field(queued_synchronous_);
  archive.field(arrivals_);
  if (options_.tells_longest_wait) archive.field(looked_at_);
}

void Queues::archive_pending(StateArchive& archive, Processor processor) {
  archive.field(pending_[index_of(processor)]);
}

void Queues::find_again() {
  waiting_.clear();
  waiting_variants_.clear();
  waiting_on_host_.clear();
  waiting_sharers_.clear();
  for (uint32_t id = 0; id < flows_.size(); ++id) note_waiting(FunctionId{id});
}

void Queues::note_queued(const PendingInvocation& invocation) {
  Flow& flow = flows_[invocation.function.value];
  ++flow.pending;
  ++queued_;
  if (invocation.holds_connection()) {
    ++flow.pending_synchronous;
    ++queued_synchronous_;
  }
  ++pending_[index_of(processor_of(flow))];
  note_waiting(invocation.function);
}

void Queues::note_waiting(FunctionId function) {
  const Flow& flow = flows_[function.value];
  const bool waits = flow.pending > 0 && processor_of(flow) == Processor::kGpu;
  waiting_.put(function, waits);
  waiting_variants_.put(function, waits && flow.has_cpu_variant);
  waiting_on_host_.put(function, flow.pending > 0 && !waits);
  waiting_sharers_.put(function, flow.pending > 0 && flow.sandbox_concurrency > 1);
}

}  // namespace lambent::dispatch
