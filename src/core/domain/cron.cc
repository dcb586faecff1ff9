#include "core/domain/cron.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string>
#include <utility>

namespace lambent {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;

// Every date and every day of the week come together within so long, but around 2100.
constexpr days kLongest = days(28 * 366);

struct Field {
  std::string_view noun;
  unsigned least, most;
  std::array<std::string_view, 12> names;  // the first stands for `first`
  unsigned first = 0;
};
constexpr Field kFields[] = {
    {"minute", 0, 59, {}},
    {"hour", 0, 23, {}},
    {"day of the month", 1, 31, {}},
    {"month",
     1,
     12,
     {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"},
     1},
    {"day of the week", 0, 7, {"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, 0},
};

constexpr std::pair<std::string_view, std::string_view> kMacros[] = {
    {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"}};

Error wrong(const Field& field, std::string_view part) {
  return Error{ErrorCode::kInvalidArgument,
               "the " + std::string(field.noun) + " in cron is '" + std::string(part) +
                   "'; it is *, a number from " + std::to_string(field.least) + " to " +
                   std::to_string(field.most) + ", a range, a list of them, or a step such as */5"};
}

std::optional<unsigned> number_in(std::string_view text) {
  unsigned number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<unsigned> value_of(const Field& field, std::string_view text) {
  if (const auto number = number_in(text)) {
    return *number >= field.least && *number <= field.most ? number : std::nullopt;
  }
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (unsigned i = 0; i < field.names.size(); ++i) {
    if (!field.names[i].empty() && lower == field.names[i]) return field.first + i;
  }
  return std::nullopt;
}

// One of a list: *, a, a-b, each perhaps with a step.
std::optional<uint64_t> bits_of(const Field& field, std::string_view part) {
  const size_t slash = part.find('/');
  unsigned step = 1;
  if (slash != std::string_view::npos) {
    const auto number = number_in(part.substr(slash + 1));
    if (!number || *number == 0 || *number > field.most) return std::nullopt;
    step = *number;
  }
  const std::string_view range = part.substr(0, slash);
  unsigned first = field.least, last = field.most;
  if (range != "*") {
    const size_t dash = range.find('-');
    const auto from = value_of(field, range.substr(0, dash));
    if (!from) return std::nullopt;
    first = *from;
    // "8/2" goes on to the end, "8" does not.
    if (dash != std::string_view::npos) {
      const auto to = value_of(field, range.substr(dash + 1));
      if (!to || *to < first) return std::nullopt;
      last = *to;
    } else if (slash == std::string_view::npos) {
      last = first;
    }
  }
  uint64_t bits = 0;
  for (unsigned value = first; value <= last; value += step) bits |= uint64_t{1} << value;
  return bits;
}

Result<uint64_t> read_field(const Field& field, std::string_view text) {
  uint64_t bits = 0;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const auto part = bits_of(field, text.substr(start, end - start));
    if (!part) return wrong(field, text);
    bits |= *part;
    start = end + 1;
  }
  return bits;
}

bool has(uint64_t bits, unsigned value) { return (bits >> value & 1) != 0; }

}  // namespace

Result<Cron> Cron::parse(std::string_view text) {
  for (const auto& [macro, stands_for] : kMacros) {
    if (text == macro) text = stands_for;
  }
  std::array<std::string_view, 5> parts;
  size_t count = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t start = std::min(text.find_first_not_of(" \t", at), text.size());
    const size_t end = std::min(text.find_first_of(" \t", start), text.size());
    if (start < end) {
      if (count < parts.size()) parts[count] = text.substr(start, end - start);
      ++count;
    }
    at = end;
  }
  if (count != parts.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 "cron has " + std::to_string(count) +
                     " fields; it has five: minute, hour, day of the month, month and day of the "
                     "week, such as \"*/5 * * * *\""};
  }
  Cron cron;
  uint64_t* const fields[] = {&cron.minutes_, &cron.hours_, &cron.days_, &cron.months_,
                              &cron.weekdays_};
  for (size_t i = 0; i < parts.size(); ++i) {
    ASSIGN_OR_RETURN(*fields[i], read_field(kFields[i], parts[i]));
  }
  // 7 is Sunday too.
  if (has(cron.weekdays_, 7)) cron.weekdays_ |= 1;
  cron.weekdays_ &= 0x7f;
  cron.any_day_ = parts[2].starts_with('*');
  cron.any_weekday_ = parts[4].starts_with('*');
  if (!cron.next(WallMinute(std::chrono::local_days(std::chrono::year(2000) / 1 / 1)))) {
    return Error{ErrorCode::kInvalidArgument,
                 "cron is '" + std::string(text) + "', which never comes"};
  }
  return cron;
}

bool Cron::matches_day(std::chrono::local_days day) const {
  const std::chrono::year_month_day date(day);
  if (!has(months_, static_cast<unsigned>(date.month()))) return false;
  const bool by_date = has(days_, static_cast<unsigned>(date.day()));
  const bool by_weekday = has(weekdays_, std::chrono::weekday(day).c_encoding());
  return any_day_ || any_weekday_ ? by_date && by_weekday : by_date || by_weekday;
}

bool Cron::matches(WallMinute minute) const {
  const auto day = std::chrono::floor<days>(minute);
  const auto of_day = minute - day;
  const auto hour = std::chrono::floor<hours>(of_day);
  return matches_day(day) && has(hours_, static_cast<unsigned>(hour.count())) &&
         has(minutes_, static_cast<unsigned>((of_day - hour).count()));
}

std::optional<WallMinute> Cron::next(WallMinute from) const {
  std::chrono::local_days day = std::chrono::floor<days>(from);
  const std::chrono::local_days last = day + kLongest;
  minutes of_day = std::chrono::floor<minutes>(from - day);
  for (; day <= last; day += days(1), of_day = minutes(0)) {
    if (!matches_day(day)) continue;
    for (; of_day < days(1); of_day += minutes(1)) {
      const auto hour = std::chrono::floor<hours>(of_day);
      if (!has(hours_, static_cast<unsigned>(hour.count()))) {
        // The next hour's first minute, after the loop's step.
        of_day = hour + hours(1) - minutes(1);
        continue;
      }
      if (has(minutes_, static_cast<unsigned>((of_day - hour).count()))) return day + of_day;
    }
  }
  return std::nullopt;
}

}  // namespace lambent
