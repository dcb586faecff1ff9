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

Result<Timetable> Timetable::of(const Schedule& schedule, TimeZone zone) {
  Timetable timetable;
  timetable.zone_ = std::move(zone);
  if (!schedule.cron.empty()) {
    ASSIGN_OR_RETURN(timetable.cron_, Cron::parse(schedule.cron));
  } else {
    ASSIGN_OR_RETURN(timetable.rate_, parse_rate(schedule.rate));
  }
  return timetable;
}

std::optional<seconds> Timetable::next(seconds after) const {
  if (!cron_) return (after / rate_ + 1) * rate_;
  if (cron_->is_hourly()) return next_of_every_hour(after);
  WallMinute from(std::chrono::floor<minutes>(after + zone_.period_at(after).offset) + minutes(1));
  for (;;) {
    const auto found = cron_->next(from);
    if (!found) return std::nullopt;
    const seconds instant = instant_of(*found);
    if (instant > after) return instant;
    from = *found + minutes(1);  // the second of two equal times
  }
}

std::optional<seconds> Timetable::next_of_every_hour(seconds after) const {
  for (;;) {
    const ZonePeriod period = zone_.period_at(after + seconds(1));
    const auto minute = std::chrono::floor<minutes>(after + period.offset) + minutes(1);
    const auto found = cron_->next(WallMinute(minute));
    if (!found) return std::nullopt;
    const seconds instant = found->time_since_epoch() - period.offset;
    if (instant < period.end) return instant;
    after = period.end - seconds(1);
  }
}

// The first instant at which the clock shows the minute, or has passed it.
seconds Timetable::instant_of(WallMinute minute) const {
  const seconds shown = minute.time_since_epoch();
  // No clock is further from UTC.
  ZonePeriod period = zone_.period_at(shown - hours(27));
  while (shown - period.offset >= period.end) period = zone_.period_at(period.end);
  return std::max(shown - period.offset, period.begin);
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
