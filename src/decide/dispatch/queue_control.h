// QueueControl: bounds on the time that clients wait in the queue of a function: a time that its
// owner or the operator gave, or else one that follows from what its runs take, while it is
// overloaded. Owned by Admission, on the thread that handles events.
#pragma once

#include <optional>
#include <vector>

#include "core/base/state_archive.h"
#include "decide/dispatch/action_log.h"
#include "decide/dispatch/device_pools.h"
#include "decide/dispatch/queues.h"
#include "decide/scheduling/overload_watch.h"

namespace lambent::dispatch {

// Asynchronous invocations, what was acknowledged and calls of workflows have no such bound: they
// wait as long as they must.
class QueueControl {
 public:
  QueueControl(const scheduling::Flows& flows, Queues& queues, DevicePools& pools,
               const ActionLog& log)
      : flows_(flows), queues_(queues), pools_(pools), log_(log) {}

  // An invocation was submitted; says why it may not wait.
  std::optional<scheduling::Refusal> refusal_of(const InvocationSubmitted& event);
  // It waits.
  void added(InvocationSlot slot) {
    if (queues_.max_queue_time(queues_[slot].function) != scheduling::kNoQueueTime) bound(slot);
  }
  // One of the function left its queue, for a place or without.
  void served(FunctionId function) {
    if (learns(function)) watch_of(function).served();
  }
  void left(FunctionId function) {
    if (flows_[function.value].pending == 0 && learns(function)) {
      watch_of(function).emptied(log_.now());
    }
  }
  // A run ended that had its place since then.
  void run_ended(FunctionId function, Duration held) {
    if (learns(function)) watch_of(function).run_ended(held);
  }

  // Why one that waits and whose time is over is given up; none: it was no bound of these.
  std::optional<scheduling::Refusal> late(InvocationSlot slot);

  bool overloaded(FunctionId function) const;
  // Whether anything is known here that decides.
  bool is_state() const;
  void archive(StateArchive& archive);

 private:
  bool learns(FunctionId function) const {
    return queues_.max_queue_time(function) == scheduling::kLearntQueueTime;
  }
  scheduling::OverloadWatch& watch_of(FunctionId function) {
    if (function.value >= watches_.size()) watches_.resize(function.value + 1);
    return watches_[function.value];
  }
  void bound(InvocationSlot slot);
  // How many of its runs could be at work at once if all that wait got their share.
  double fair_part_of(FunctionId function) const;
  double waiting_weight(Processor processor) const;
  // What one place in its queue takes.
  Duration turn_of(FunctionId function);
  void begin_overload(FunctionId function);
  // Until when one may wait.
  Instant latest_of(const PendingInvocation& invocation) const;

  const scheduling::Flows& flows_;
  Queues& queues_;
  DevicePools& pools_;
  const ActionLog& log_;
  std::vector<scheduling::OverloadWatch> watches_;  // by FunctionId, as far as any was needed
};

}  // namespace lambent::dispatch
