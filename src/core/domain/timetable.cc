#include "core/domain/timetable.h"

#include <algorithm>

namespace lambent {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

// Where the last instant is looked for: the shortest that has one, so that a schedule of minutes is
// not counted through a year that a worker was off.
constexpr seconds kWindows[] = {hours(2), hours(48), hours(24 * 64), hours(24 * 800)};

}  // namespace

Result<Timetable> Timetable::of(const Schedule& schedule) {
  Timetable timetable;
  if (!schedule.cron.empty()) {
    ASSIGN_OR_RETURN(timetable.cron_, Cron::parse(schedule.cron));
  } else {
    ASSIGN_OR_RETURN(timetable.rate_, parse_rate(schedule.rate));
  }
  return timetable;
}

std::optional<seconds> Timetable::next(seconds after) const {
  if (!cron_) return (after / rate_ + 1) * rate_;
  const auto minute = std::chrono::floor<minutes>(after) + minutes(1);
  const auto found = cron_->next(WallMinute(minute));
  if (!found) return std::nullopt;
  return found->time_since_epoch();
}

seconds Timetable::last_until(seconds now, seconds due) const {
  for (const seconds window : kWindows) {
    std::optional<seconds> at = next(std::max(due, now - window) - seconds(1));
    if (!at || *at > now) continue;
    seconds last = *at;
    while ((at = next(last)) && *at <= now) last = *at;
    return last;
  }
  return due;
}

FiringDecision decide_firing(const Timetable& timetable, seconds due, seconds now, bool catch_up) {
  FiringDecision decision;
  if (now < due) {
    decision.next = due;
    return decision;
  }
  const seconds last = timetable.last_until(now, due);
  if (now - last <= kFiringGrace || catch_up) {
    decision.fires = last;
  }
  decision.missed = !decision.fires || last != due;
  decision.next = timetable.next(std::max(now, last));
  return decision;
}

}  // namespace lambent
