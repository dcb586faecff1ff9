#include "sim/workload/time_text.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "sim/workload/csv.h"

namespace lambent::workload {
namespace {

struct UnitWords {
  TimeUnit unit;
  std::string_view name;
  std::string_view words;
  double per_second;
  int64_t ns;  // of one
};

constexpr UnitWords kUnits[] = {
    {TimeUnit::kNanoseconds, "ns", "nanoseconds", 1e9, 1},
    {TimeUnit::kMicroseconds, "us", "microseconds", 1e6, 1'000},
    {TimeUnit::kMilliseconds, "ms", "milliseconds", 1e3, 1'000'000},
    {TimeUnit::kSeconds, "s", "seconds", 1, 1'000'000'000},
    {TimeUnit::kMinutes, "min", "minutes", 1.0 / 60, 60'000'000'000},
    {TimeUnit::kHours, "h", "hours", 1.0 / 3600, 3'600'000'000'000},
    {TimeUnit::kDate, "date", "dates", 1, 0},
};

const UnitWords& entry_of(TimeUnit unit) { return kUnits[static_cast<size_t>(unit)]; }

// Takes exactly `digits` digits off the front of `text`.
std::optional<int> take_digits(std::string_view& text, size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int number = 0;
  for (size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    number = number * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return number;
}

bool take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

bool is_digits(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The fraction of a second after its point, as nanoseconds; digits beyond these are dropped.
std::optional<int64_t> take_fraction(std::string_view& text) {
  int64_t ns = 0;
  size_t digits = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1)) {
    if (++digits <= 9) ns = ns * 10 + (text.front() - '0');
  }
  if (digits == 0) return std::nullopt;
  for (; digits < 9; ++digits) ns *= 10;
  return ns;
}

// "Z", "+02", "+0200" or "+02:00", or nothing at all, which is UTC; all of `text`.
std::optional<std::chrono::minutes> zone_of(std::string_view text) {
  using std::chrono::minutes;
  if (text.empty() || text == "Z" || text == "z" || text == " UTC") return minutes(0);
  const bool east = text.front() == '+';
  if (!east && text.front() != '-') return std::nullopt;
  text.remove_prefix(1);
  const auto hours = take_digits(text, 2);
  if (!hours || *hours > 18) return std::nullopt;
  int rest = 0;
  if (!text.empty()) {
    take(text, ':');
    const auto after = take_digits(text, 2);
    if (!after || *after > 59 || !text.empty()) return std::nullopt;
    rest = *after;
  }
  const minutes zone(*hours * 60 + rest);
  return east ? zone : -zone;
}

std::optional<Duration> date_of(std::string_view text) {
  using namespace std::chrono;
  const auto year = take_digits(text, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day || *year < 1970 || *year > 2250) return std::nullopt;
  const year_month_day date{std::chrono::year(*year),
                            std::chrono::month(static_cast<unsigned>(*month)),
                            std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || !(take(text, ' ') || take(text, 'T'))) return std::nullopt;
  const auto hour = take_digits(text, 2);
  if (!hour || *hour > 23 || !take(text, ':')) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || *minute > 59) return std::nullopt;
  int second = 0;
  int64_t fraction = 0;
  if (take(text, ':')) {
    const auto whole = take_digits(text, 2);
    if (!whole || *whole > 60) return std::nullopt;  // 60: a leap second
    second = *whole;
    if (take(text, '.')) {
      const auto ns = take_fraction(text);
      if (!ns) return std::nullopt;
      fraction = *ns;
    }
  }
  const auto zone = zone_of(text);
  if (!zone) return std::nullopt;
  const Duration since = sys_days(date).time_since_epoch() + hours(*hour) + minutes(*minute) +
                         seconds(second) + nanoseconds(fraction) - *zone;
  if (since < Duration(0)) return std::nullopt;
  return since;
}

}  // namespace

std::optional<TimeUnit> unit_from_name(std::string_view name) {
  for (const UnitWords& each : kUnits) {
    if (name == each.name) return each.unit;
  }
  return std::nullopt;
}

std::string_view words_of(TimeUnit unit) { return entry_of(unit).words; }

std::optional<TimeUnit> unit_of_column(std::string_view column) {
  constexpr std::pair<std::string_view, TimeUnit> kEndings[] = {
      {"_ns", TimeUnit::kNanoseconds},
      {"_us", TimeUnit::kMicroseconds},
      {"_ms", TimeUnit::kMilliseconds},
      {"_s", TimeUnit::kSeconds},
      {"_min", TimeUnit::kMinutes},
      {"_h", TimeUnit::kHours},
      {"_milliseconds", TimeUnit::kMilliseconds},
      {"_microseconds", TimeUnit::kMicroseconds},
      {"_nanoseconds", TimeUnit::kNanoseconds},
      {"_seconds", TimeUnit::kSeconds},
      {"_sec", TimeUnit::kSeconds},
      {"_minutes", TimeUnit::kMinutes},
      {"_hours", TimeUnit::kHours},
      {"(ns)", TimeUnit::kNanoseconds},
      {"(us)", TimeUnit::kMicroseconds},
      {"(ms)", TimeUnit::kMilliseconds},
      {"(s)", TimeUnit::kSeconds},
  };
  for (const auto& [ending, unit] : kEndings) {
    if (column.size() > ending.size() && column.ends_with(ending)) return unit;
  }
  return std::nullopt;
}

std::optional<double> seconds_of(std::string_view text, TimeUnit unit) {
  if (unit == TimeUnit::kDate) return std::nullopt;
  const auto number = number_of(text);
  if (!number) return std::nullopt;
  return *number / entry_of(unit).per_second;
}

std::optional<Duration> time_of(std::string_view text, TimeUnit unit) {
  if (unit == TimeUnit::kDate) return date_of(text);
  // Digits and a point are exact, as far as a nanosecond goes: today's seconds in a double are not.
  const size_t point = std::min(text.find('.'), text.size());
  const std::string_view after = text.substr(std::min(point + 1, text.size()));
  const bool has_fraction = point + 1 < text.size();
  const auto whole = whole_number_of(text.substr(0, point));
  if (whole && (point == text.size() || (has_fraction && is_digits(after)))) {
    const int64_t ns = entry_of(unit).ns;
    constexpr auto kMost = static_cast<uint64_t>(kMostClockSeconds) * 1'000'000'000;
    if (*whole > kMost / static_cast<uint64_t>(ns)) return std::nullopt;
    const Duration since(static_cast<int64_t>(*whole) * ns);
    if (!has_fraction) return since;
    const double fraction = number_of(text.substr(point)).value_or(0);
    return since + Duration(std::llround(fraction * static_cast<double>(ns)));
  }
  const auto amount_s = seconds_of(text, unit);
  if (!amount_s || *amount_s < 0 || *amount_s > kMostClockSeconds) return std::nullopt;
  return from_seconds(*amount_s);
}

}  // namespace lambent::workload
