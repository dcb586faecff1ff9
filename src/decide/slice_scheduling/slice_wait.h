// Why the requests of a pipeline function wait, in words that users see, and for how long for which
// reason. Pure; kept by PipelineHost, on the loop thread.
#pragma once

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "decide/slice_scheduling/world.h"

namespace lambent::slice_scheduling {

// Where other functions wait for the same, the word is theirs (decide/scheduling/wait_reason.h).
enum class SliceWait {
  kNone,          // it does not wait
  kOwnQueue,      // its instances are at work on others of its function
  kBehindOthers,  // its instance is free, and yields its slice to others first
  kSliceShared,   // another function has its turn on the slice that both share
  kNoSlice,       // no slice that is free holds it
  kNoDevice,      // every slice is lost or being measured on
  kStartPaused,   // a start failed, and is tried again after a pause
  kStarting,      // its instance is being started: no wait in a queue, but a cold start
  kMemoryMoving,  // the slice is its own, and weights are on their way there or away
};
std::string_view name_of(SliceWait reason);  // "own_queue"
// Whether a request that waits so waits in the queue; otherwise it has its place and waits there.
bool is_queueing(SliceWait reason);

struct WaitCause {
  SliceWait reason = SliceWait::kNone;
  // Who has what it waits for, or most of it; 0: no other.
  FunctionId other;

  auto operator<=>(const WaitCause&) const = default;
};

// Why the oldest request of the function's queue is not being served; kNone if its queue is empty.
WaitCause wait_of(const SliceWorld& world, const FunctionState& function);

// How long for which cause, the longest first; causes that took no time are left out.
using Waits = std::vector<std::pair<WaitCause, Duration>>;

// For each function, how long its queue has waited for which cause since the first look: what one
// request waited for is the difference between two moments.
class WaitAccounting {
 public:
  using Totals = std::map<WaitCause, Duration>;

  // What the world is from now on; after each event.
  void look(const SliceWorld& world, Instant now);
  // Until now, which is not before the last look.
  Totals totals(FunctionId function, Instant now) const;

 private:
  static void add(Totals& totals, const WaitCause& cause, Duration waited);

  // Beyond so many causes of one function it is not told any more who the other was.
  static constexpr size_t kMostCauses = 64;

  Instant now_{};
  std::map<FunctionId, WaitCause> causes_;  // of those with a queue
  std::map<FunctionId, Totals> totals_;
};

// What was waited between the two is added to `waits`.
void add_difference(const WaitAccounting::Totals& before, const WaitAccounting::Totals& after,
                    Waits& waits);

// Of those in the queue, the cause that took longest; kNone if there was none.
WaitCause longest_queueing(const Waits& waits);

}  // namespace lambent::slice_scheduling
