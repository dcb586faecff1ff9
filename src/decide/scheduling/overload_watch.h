// OverloadWatch: tells of one function whether clients ask for more than it can be given, for as
// long as that lasts, and what may wait of it meanwhile. A burst that is over is no overload.
// Pure; one per function, kept by dispatch on the loop thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/scheduling/flow.h"

namespace lambent::scheduling {

// A bound on the time in a queue: of a function, or for those that state none.
// Zero: learnt from how long the function's runs take, while it is overloaded.
constexpr Duration kLearntQueueTime{0};
// No bound.
constexpr Duration kNoQueueTime = Duration::max();

// In times of what a run takes. A newcomer waits if its turn is expected to come within the first,
// one that was told when to come again within the second; one that has waited for the third is
// given up, because the estimate was wrong.
constexpr int kFreshWait = 3;
constexpr int kPromisedWait = 5;
constexpr int kLongestWait = 7;
// Runs that take less count as this: a machine with other work can stand still for so long, and a
// queue that comes of that is no overload.
constexpr Duration kLeastService = milliseconds(20);
// What a client is told at most: this, or so many turns if that is longer.
constexpr Duration kFurthestPromise = seconds(10);
constexpr int kFurthestTurn = 64;

class OverloadWatch {
 public:
  // An invocation of a client came, whether or not it may wait.
  void offered(const Flow& flow, Instant now);
  // One that waited has been given a place.
  void served() { ++served_; }
  // The last that waited is gone.
  void emptied(Instant now) { emptied_ = now; }
  // A run ended that had its place for so long, the start of its sandbox included.
  void run_ended(Duration held) { held_.learn(held); }

  bool overloaded() const { return overloaded_; }
  // Whether those that came lately may be too many: the first of the queue came before all of them.
  // Only then is it worth to find out what the function's part is.
  bool is_suspect(const Flow& flow, Instant now) const;
  // Says whether they were, if one place in the queue takes `turn` at its fair part; from then on
  // overloaded() until the queue has been empty for a while.
  bool judge(Duration turn, Instant now);

  // What a run takes, as far as bounds on the wait go.
  static Duration service_of(const Flow& flow) {
    return std::max(kLeastService, flow.execution.mean_or(Duration(0)));
  }
  // What one place in the queue takes if so many of its runs are at work at once.
  Duration turn_of(const Flow& flow, double at_once) const;
  // Whether one more may wait: always one, so that a place that comes free is taken.
  static bool has_room(const Flow& flow, Duration turn, bool promised);
  // Gives the next turn that no client was promised, and returns how long that is from now.
  Duration promise(Duration turn, Instant now);

  void archive(StateArchive& archive);

 private:
  // How long the first of a queue has waited before anything is suspect.
  static Duration window_of(const Flow& flow) {
    return flow.execution.known() ? service_of(flow) * 4 : seconds(1);
  }
  void begin_window(Instant now);

  bool overloaded_ = false;
  // Since when are counted: those that came, and those that left for a place.
  Instant since_ = kNever;
  uint32_t offered_ = 0;
  uint32_t served_ = 0;
  uint32_t judged_ = 0;  // so many of those offered were found not to be too many
  Instant emptied_ = kNever;
  Instant promised_{};  // the last turn that was promised
  RunningMean held_;
};

}  // namespace lambent::scheduling
