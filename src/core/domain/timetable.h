// Timetable: the instants of a schedule, and which of them is begun when the clock is looked at.
// Pure: it is told the time. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/domain/cron.h"
#include "core/domain/schedule.h"

namespace lambent {

// Seconds since the Unix epoch. Those of a cron are minutes of UTC; those of a rate are its
// multiples, so that they are the same after every restart.
class Timetable {
 public:
  // INVALID_ARGUMENT for a schedule that validate() refuses.
  static Result<Timetable> of(const Schedule& schedule);
  // The first after that; none: it never comes.
  std::optional<seconds> next(seconds after) const;
  // The last that is not after `now`, of those from `due` on, which is one.
  seconds last_until(seconds now, seconds due) const;

 private:
  std::optional<Cron> cron_;
  seconds rate_{};
};

// How late a firing may begin and still be the one that was due.
constexpr seconds kFiringGrace = seconds(60);

struct FiringDecision {
  std::optional<seconds> fires;  // this instant's, now
  bool missed = false;           // some came while nothing looked, and are not made up for
  std::optional<seconds> next;
};
// `due`: the next one, as it was known. Of several that have passed at most the last is begun: if
// it is within the grace time, or if `catch_up`.
FiringDecision decide_firing(const Timetable& timetable, seconds due, seconds now, bool catch_up);

}  // namespace lambent
