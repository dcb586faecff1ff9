// WaitRecord: what an invocation waits for, and what it has waited for longest. A value; kept by
// dispatch with each invocation that has no outcome yet.
#pragma once

#include <algorithm>

#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/scheduling/wait_reason.h"

namespace lambent::dispatch {

// Of a wait there are stretches, each for one reason. Only the longest and the present one are
// kept: lambent-why has the sums, from the journal.
class WaitRecord {
 public:
  // The least time between two looks at why the same invocation waits.
  static constexpr Duration kBetweenLooks = milliseconds(100);

  WaitRecord() = default;
  // `tells_longest`: DispatchOptions::tells_longest_wait.
  explicit WaitRecord(bool tells_longest) : tells_longest_(tells_longest) {}

  // The present reason; of one that waits no longer, the last one.
  scheduling::WaitReason reason() const { return reason_; }
  bool waits_for(scheduling::WaitReason reason) const {
    return since_ != kNever && reason_ == reason;
  }
  bool tells_longest() const { return tells_longest_; }
  // What it waited for longest in one stretch, the present one included.
  scheduling::WaitReason longest(Instant now) const {
    return since_ != kNever && is_longest(now - since_) ? reason_ : longest_;
  }

  // What an outcome names, if it comes now.
  scheduling::WaitReason told(Instant now) const { return tells_longest_ ? longest(now) : reason_; }

  // It waits for that from now on, until something else is said.
  void begin(scheduling::WaitReason reason, Instant now) {
    if (since_ != kNever && reason == reason_) return;
    end(now);
    reason_ = reason;
    since_ = now;
  }
  // The same, although it has a place.
  void begin_in_place(scheduling::WaitReason reason, Instant now) {
    if (tells_longest_ || reason_ == scheduling::WaitReason::kNone) begin(reason, now);
  }
  // It waits for nothing.
  void end(Instant now) {
    if (since_ != kNever && is_longest(now - since_)) {
      longest_ = reason_;
      longest_for_ = now - since_;
    }
    since_ = kNever;
  }

  // Why it waits was looked at, and is looked at again after half of the time that it has waited:
  // so however long it waits, that is seldom.
  void looked(Instant submitted, Instant now) {
    look_again_ = now + std::max(kBetweenLooks, (now - submitted) / 2);
  }
  bool is_time(Instant now) const { return now >= look_again_; }

  // `tells_longest` false: only the reason.
  void archive(StateArchive& archive, bool tells_longest) {
    tells_longest_ = tells_longest;
    archive.choice(reason_, scheduling::kLastWaitReason);
    if (!tells_longest) return;
    archive.field(since_);
    archive.choice(longest_, scheduling::kLastWaitReason);
    archive.field(longest_for_);
    archive.field(look_again_);
  }

 private:
  bool is_longest(Duration lasted) const {
    return reason_ != scheduling::WaitReason::kNone &&
           (longest_ == scheduling::WaitReason::kNone || lasted > longest_for_);
  }

  bool tells_longest_ = true;
  scheduling::WaitReason reason_ = scheduling::WaitReason::kNone;
  scheduling::WaitReason longest_ = scheduling::WaitReason::kNone;
  Instant since_ = kNever;  // when the present stretch began
  Duration longest_for_{};
  Instant look_again_{};
};

}  // namespace lambent::dispatch
