// Times as tables have them: numbers in a unit that the table's reader knows, or dates. Pure; used
// by the readers of traces.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/time.h"

namespace lambent::workload {

enum class TimeUnit {
  kNanoseconds,
  kMicroseconds,
  kMilliseconds,
  kSeconds,
  kMinutes,
  kHours,
  kDate,  // 2024-05-10 00:00:00.009930+00:00 and the like
};
// "ns", "us", "ms", "s", "min", "h" or "date".
std::optional<TimeUnit> unit_from_name(std::string_view name);
// "nanoseconds", ..., "dates".
std::string_view words_of(TimeUnit unit);
// The unit that a column's name ends with: "t_ms", "start_time_s", "duration_seconds", "wait (s)".
std::optional<TimeUnit> unit_of_column(std::string_view column);

// Times far beyond any trace would overflow the clock's nanoseconds.
constexpr double kMostSeconds = 1e9;
// The latest moment since 1970, or whenever a clock began, that a Duration holds.
constexpr double kMostClockSeconds = 9e9;

// To the nanosecond: a number of the unit, zero to kMostClockSeconds, or a date since 1970; nothing
// otherwise. Dates without a zone are taken for UTC.
std::optional<Duration> time_of(std::string_view text, TimeUnit unit);
// A finite number of the unit in seconds, whatever it is; nothing for dates.
std::optional<double> seconds_of(std::string_view text, TimeUnit unit);

}  // namespace lambent::workload
