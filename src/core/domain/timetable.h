// Timetable: the instants of a schedule, and which of them is begun when the clock is looked at.
// Pure: it is told the time. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/domain/cron.h"
#include "core/domain/schedule.h"
#include "core/domain/time_zone.h"

namespace lambent {

// Seconds since the Unix epoch. Those of a cron are minutes of its time zone; those of a rate are
// its multiples, so that they are the same after every restart.
//
// Where clocks are set, a cron that comes in every hour follows the time that passes. Any other is
// due once on a day: at the first of two equal times, and where its time is skipped, when the clock
// has been set.
class Timetable {
 public:
  // INVALID_ARGUMENT for a schedule that validate() refuses.
  static Result<Timetable> of(const Schedule& schedule, TimeZone zone = {});
  // The first after that; none: it never comes.
  std::optional<seconds> next(seconds after) const;
  // The last that is not after `now`, of those from `due` on, which is one.
  seconds last_until(seconds now, seconds due) const;

 private:
  std::optional<seconds> next_of_every_hour(seconds after) const;
  seconds instant_of(WallMinute minute) const;

  TimeZone zone_;
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
