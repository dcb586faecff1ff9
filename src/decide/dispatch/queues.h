// Queues: the invocations without an outcome, which of them wait and for which processor, and until
// when each may wait or run. Owned by Dispatcher, on the thread that handles events.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/dispatch/event.h"
#include "decide/dispatch/invocation_table.h"
#include "decide/dispatch/options.h"
#include "decide/scheduling/admission.h"
#include "decide/scheduling/deadlines.h"
#include "decide/scheduling/flow.h"
#include "decide/scheduling/flow_set.h"

namespace lambent::dispatch {

// Where a function's invocations take turns. A CPU variant runs on the host too, but its function
// takes turns on GPUs.
enum class Processor : uint8_t { kGpu, kHost };

inline Processor processor_of(const scheduling::Flow& flow) {
  return flow.device_memory.count > 0 ? Processor::kGpu : Processor::kHost;
}

// The first function after this one that is in one of both; after the last comes the first. There
// must be one.
FunctionId first_after(FunctionId function, const scheduling::FlowSet& one,
                       const scheduling::FlowSet& other);

inline bool is_registered(const scheduling::Flows& flows, FunctionId function) {
  return function.value < flows.size() && flows[function.value].registered;
}

// It keeps the counts of waiting invocations in `flows`, and tells no policy of a change: its
// callers do.
class Queues {
 public:
  // Both outlive it. Functions must be in `flows` before anything of them waits.
  Queues(const DispatchOptions& options, scheduling::Flows& flows)
      : options_(options), flows_(flows) {}

  PendingInvocation& operator[](InvocationSlot slot) { return table_[slot]; }
  const PendingInvocation& operator[](InvocationSlot slot) const { return table_[slot]; }
  std::optional<InvocationSlot> find(InvocationId id) const { return table_.find(id); }
  // The oldest that waits, or kNoInvocation; the others follow as `later`.
  InvocationSlot front(FunctionId function) const { return table_.front(function); }

  size_t queued() const { return queued_; }
  size_t queued_synchronous() const { return queued_synchronous_; }
  size_t in_flight() const { return table_.size() - queued_; }
  // How many wait for a turn on this processor.
  size_t pending(Processor processor) const { return pending_[index_of(processor)]; }
  // Flows with something waiting for a GPU, and those of them with a CPU variant.
  const scheduling::FlowSet& waiting() const { return waiting_; }
  const scheduling::FlowSet& waiting_variants() const { return waiting_variants_; }
  // Whether `test` is true of a flow with something waiting for a turn on this processor.
  template <typename Test>
  bool any_waiting(Processor processor, Test test) const {
    return waiting(processor).any_of(test);
  }
  // The set of flows may not change meanwhile.
  template <typename Visit>
  void for_each_waiting(Visit visit) const {
    waiting_.for_each(visit);
    waiting_on_host_.for_each(visit);
  }
  // Flows with something waiting for a turn on this processor.
  const scheduling::FlowSet& waiting(Processor processor) const {
    return processor == Processor::kGpu ? waiting_ : waiting_on_host_;
  }
  // Flows with something waiting that may join a sandbox at work, for any processor.
  const scheduling::FlowSet& waiting_sharers() const { return waiting_sharers_; }

  // Why it may not wait beside those that wait already.
  std::optional<scheduling::Refusal> overload_of(const InvocationSubmitted& event) const;
  // How long its clients may wait in its queue: scheduling::kLearntQueueTime, kNoQueueTime or a
  // time that was given.
  Duration max_queue_time(FunctionId function) const {
    const Duration own = flows_[function.value].max_queue_time;
    return own != Duration(0) ? own : options_.max_queue_time;
  }
  // It waits from now on. Its id must be unknown.
  InvocationSlot add(const InvocationSubmitted& event, Instant now);
  // It waits no longer: it has a place, or gets its outcome.
  void leave(InvocationSlot slot, Instant now);
  // It lost its place, and waits again where it was in its queue. `is_new_wait`: as long as one
  // that was just submitted; else no longer than it might have waited for that place.
  void put_back(InvocationSlot slot, bool is_new_wait, Instant now);
  // It has its outcome and does not wait any more; the slot is free.
  void remove(InvocationSlot slot);

  // Takes the invocations that wait of a function out of all counts, and puts them back: between
  // the two calls its flow may change in every way.
  struct Waiting {
    uint32_t pending = 0;
    uint32_t synchronous = 0;
  };
  Waiting uncount(FunctionId function);
  void count(FunctionId function, Waiting waiting);

  // One that waits may do so no longer than until then; what has passed counts as now.
  void bound_wait(InvocationSlot slot, Instant until, Instant now);
  // It may wait until then, if no other bound comes before.
  void extend_wait(InvocationSlot slot, Instant until) { deadlines_.put(slot, until); }
  // Until when it may wait or run; one that starts has no deadline.
  void start_timeout(InvocationSlot slot, Instant now);
  void clear_deadline(InvocationSlot slot) { deadlines_.erase(slot); }
  Instant deadline_of(InvocationSlot slot) const { return deadlines_.of(slot); }
  Instant earliest_deadline(Instant limit) { return deadlines_.earliest(limit); }
  bool any_expired(Instant now) { return deadlines_.any_until(now); }
  // The one that expired first has no deadline from then on. There must be one.
  InvocationSlot pop_expired() { return deadlines_.pop(); }

  // Gives each that has become the first of its queue, since the last call, the reason why it waits
  // now: `reason_of(function)`.
  bool has_new_heads() const { return !new_heads_.empty(); }
  template <typename ReasonOf>
  void note_wait_reasons(Instant now, ReasonOf reason_of) {
    for (const FunctionId function : new_heads_) {
      const InvocationSlot head = front(function);
      if (head == kNoInvocation) continue;
      table_[head].note_reason(reason_of(function), now);
      table_.begin_waits_behind(head, now);
    }
    new_heads_.clear();
  }
  // The same of one that has been the first of a queue for longer: each time another one, if it is
  // time to look at it again.
  template <typename ReasonOf>
  void look_at_a_head(Instant now, ReasonOf reason_of) {
    if (waiting_.empty() && waiting_on_host_.empty()) return;
    looked_at_ = first_after(looked_at_, waiting_, waiting_on_host_);
    const InvocationSlot head = front(looked_at_);
    if (head == kNoInvocation || !table_[head].wait.is_time(now)) return;
    table_[head].note_reason(reason_of(looked_at_), now);
  }

  // The parts of a snapshot, in their order; `flows` must have been restored before.
  void archive(StateArchive& archive);
  void archive_pending(StateArchive& archive, Processor processor);
  void archive_deadlines(StateArchive& archive) { deadlines_.archive(archive); }
  // What is not written because it follows from the rest.
  void find_again();
  std::vector<bool> free_slots() const { return table_.free_slots(); }

 private:
  static size_t index_of(Processor processor) { return static_cast<size_t>(processor); }
  // It waits: again, or from now on.
  void note_queued(const PendingInvocation& invocation);
  void note_waiting(FunctionId function);
  Duration longest_queue(FunctionId function) const;

  const DispatchOptions& options_;
  scheduling::Flows& flows_;
  InvocationTable table_;
  size_t queued_ = 0;
  size_t queued_synchronous_ = 0;  // of these
  size_t pending_[2] = {0, 0};     // by processor
  uint64_t arrivals_ = 0;
  scheduling::FlowSet waiting_;
  scheduling::FlowSet waiting_variants_;
  scheduling::FlowSet waiting_on_host_;
  scheduling::FlowSet waiting_sharers_;
  std::vector<FunctionId> new_heads_;
  FunctionId looked_at_;  // the last one whose first was looked at
  scheduling::Deadlines deadlines_;
};

}  // namespace lambent::dispatch
