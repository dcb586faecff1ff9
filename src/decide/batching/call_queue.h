// CallQueue: the calls of one function that wait for each other, and which of them run together:
// one batch after the other, as BatchPolicy says. Pure: times are arguments, and who owns it makes
// the runs; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/units.h"
#include "decide/batching/batch_policy.h"

namespace lambent::batching {

struct QueuedCall {
  InvocationId id;
  Instant since{};        // it waits; who waits longest comes first
  uint64_t elements = 0;  // 0: it runs by itself
  Bytes payload;
};

struct CallLimits {
  BatchLimits batch;
  size_t calls = SIZE_MAX;            // in one batch
  Bytes payload = Bytes(UINT64_MAX);  // of a batch
  size_t waiting = SIZE_MAX;          // calls that wait
  Bytes waiting_payload = Bytes(UINT64_MAX);
};

class CallQueue {
 public:
  explicit CallQueue(CallLimits limits) : limits_(limits), policy_(limits.batch) {}

  // False: too many wait, and this call does not.
  bool add(const QueuedCall& call);
  // It waits no more; false: it does not wait here.
  bool remove(InvocationId id);

  struct Next {
    std::vector<InvocationId> calls;    // these run now, in the order in which they came
    std::optional<Instant> again = {};  // if none do and some wait: when to ask again
  };
  // Begins a run, unless one is under way.
  Next next(Instant now);
  // The run that next() began has ended; `was_one_run`: its calls were served together.
  void ended(Instant now, bool was_one_run);

  bool is_idle() const { return !is_running() && waiting_.empty(); }
  bool is_running() const { return running_ > 0; }
  size_t waiting() const { return waiting_.size(); }

 private:
  // Of those that wait, by their places: the first, and the others that may join it.
  std::vector<size_t> candidates() const;
  // Whether no other call may join these, for their number or their bytes.
  bool is_full(const std::vector<size_t>& places) const;

  const CallLimits limits_;
  BatchPolicy policy_;
  std::deque<QueuedCall> waiting_;
  Bytes payload_;         // of those
  uint64_t running_ = 0;  // elements of the run under way; 1 of a call that runs by itself
  bool runs_by_itself_ = false;
  Instant began_{};
};

}  // namespace lambent::batching
