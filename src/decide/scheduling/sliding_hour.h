// SlidingHour: how much GPU time was used in the hour that ends now. A value; kept for each tenant
// that has a quota of it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/state_archive.h"
#include "core/base/time.h"

namespace lambent::scheduling {

// Times are counted together in steps of kStep, and each counts until an hour after the end of its
// step: never too short, and at most kStep too long. So there are at most 361 of them.
class SlidingHour {
 public:
  static constexpr Duration kStep = seconds(10);
  static constexpr Duration kHour = std::chrono::hours(1);

  // Time that was used until `now`, which never goes back. What is negative counts as none.
  void add(Duration time, Instant now);
  // Time that was used about `age` ago, before this was there: as if add() had been called then, or
  // at the zero of the clock if that was later. None that is older than an hour.
  void remember(Duration time, Duration age, Instant now);
  // Forgets what ended longer ago than an hour.
  void expire(Instant now);
  // What was used, as of the last call of these two.
  Duration used() const { return used_; }
  // The same as of `now`.
  Duration used_at(Instant now) const;
  // From when on used() is below `limit` if nothing is added but `more`, which ends now; kNever if
  // it is not below by then.
  Instant when_below(Duration limit, Duration more, Instant now) const;

  // What is counted together, and the middle of when it was used.
  struct Used {
    Instant at;
    Duration time{};

    bool operator==(const Used&) const = default;
  };
  std::vector<Used> all_used() const;  // the oldest first
  std::optional<Used> last_used() const;

  void archive(StateArchive& archive);

 private:
  struct Step {
    uint64_t number = 0;  // since the zero of the clock
    Duration time{};
  };
  static uint64_t number_of(Instant now);
  static Instant end_of(const Step& step);
  static Used used_in(const Step& step);

  std::deque<Step> steps_;  // the oldest first
  Duration used_{};
};

}  // namespace lambent::scheduling
