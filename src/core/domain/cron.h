// Cron: when something is to happen by the clock on the wall, in five fields: minute, hour, day of
// the month, month and day of the week, as crontab(5) has them. A value and pure functions, any
// thread. It knows no time zones.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/result.h"

namespace lambent {

// What a clock on the wall shows, whatever its zone.
using WallMinute = std::chrono::local_time<std::chrono::minutes>;

class Cron {
 public:
  // Lists, ranges and steps ("1-5", "*/15", "8-18/2", "mon,wed"), names of months and days, 0 and
  // 7 for Sunday, and @hourly, @daily, @weekly, @monthly, @yearly. Where both days are given, one
  // of them is enough. INVALID_ARGUMENT, naming the field.
  static Result<Cron> parse(std::string_view text);

  bool matches(WallMinute minute) const;
  // The first that matches, `from` included; none: there is none in 28 years, such as 30 February.
  std::optional<WallMinute> next(WallMinute from) const;

  // Whether it comes in all hours of a day.
  bool is_hourly() const { return hours_ == (uint64_t{1} << 24) - 1; }

  bool operator==(const Cron&) const = default;

 private:
  bool matches_day(std::chrono::local_days day) const;

  // Bit n: the field may be n.
  uint64_t minutes_ = 0, hours_ = 0, days_ = 0, months_ = 0, weekdays_ = 0;
  bool any_day_ = false, any_weekday_ = false;  // the field is * or */n
};

}  // namespace lambent
