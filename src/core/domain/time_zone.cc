#include "core/domain/time_zone.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace lambent {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;

constexpr size_t kHeader = 44;
constexpr size_t kMostEntries = 4096;  // of each list in a file; the database has less than 300
constexpr seconds kMostOffset = hours(26);
constexpr size_t kMostName = 64;

Error bad(std::string_view what) {
  return {ErrorCode::kInvalidArgument, "this is no file of a time zone: " + std::string(what)};
}

int64_t big_endian(std::string_view bytes) {
  uint64_t number = bytes.empty() || static_cast<signed char>(bytes[0]) >= 0 ? 0 : ~uint64_t{0};
  for (const char c : bytes) number = number << 8 | static_cast<unsigned char>(c);
  return static_cast<int64_t>(number);
}

// The six counts of a header, in the order of the file.
struct Counts {
  size_t utc_indicators, standard_indicators, leaps, times, types, characters;

  size_t bytes(size_t time_size) const {
    return times * (time_size + 1) + types * 6 + characters + leaps * (time_size + 4) +
           standard_indicators + utc_indicators;
  }
};

std::optional<Counts> read_counts(std::string_view header) {
  if (header.size() < kHeader || !header.starts_with("TZif")) return std::nullopt;
  size_t numbers[6];
  for (size_t i = 0; i < 6; ++i) {
    const int64_t number = big_endian(header.substr(20 + 4 * i, 4));
    if (number < 0 || static_cast<size_t>(number) > kMostEntries) return std::nullopt;
    numbers[i] = static_cast<size_t>(number);
  }
  return Counts{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
}

bool is_name_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
         c == '_' || c == '+';
}

}  // namespace

// Reads "CET-1CEST,M3.5.0,M10.5.0/3" piece by piece.
class TimeZone::Footer {
 public:
  explicit Footer(std::string_view text) : rest_(text) {}

  std::optional<Rule> read() {
    Rule rule;
    const auto standard = name() ? offset() : std::nullopt;
    if (!standard) return std::nullopt;
    rule.standard = -*standard;
    if (rest_.empty()) return rule;
    rule.has_summer = true;
    rule.summer = rule.standard + hours(1);
    if (!name()) return std::nullopt;
    if (!rest_.starts_with(',')) {
      const auto summer = offset();
      if (!summer) return std::nullopt;
      rule.summer = -*summer;
    }
    const auto begin = change();
    const auto end = begin ? change() : std::nullopt;
    if (!end || !rest_.empty()) return std::nullopt;
    rule.begin = *begin;
    rule.end = *end;
    return rule;
  }

 private:
  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool name() {
    const auto skip = [&](auto is_part) {
      const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_part);
      const auto length = static_cast<size_t>(end - rest_.begin());
      rest_.remove_prefix(length);
      return length >= 3;
    };
    if (take('<')) return skip([](char c) { return c != '>'; }) && take('>');
    return skip([](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; });
  }

  std::optional<int> number(int most) {
    int value = 0;
    const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (code != std::errc() || value < 0 || value > most) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  // "[+-]hh[:mm[:ss]]"; up to a week of hours in the time of a change.
  std::optional<seconds> offset(int most_hours = 24) {
    const bool negative = take('-');
    if (!negative) (void)take('+');
    const auto hour = number(most_hours);
    if (!hour) return std::nullopt;
    seconds all = hours(*hour);
    for (const seconds unit : {seconds(60), seconds(1)}) {
      if (!take(':')) break;
      const auto part = number(59);
      if (!part) return std::nullopt;
      all += *part * unit;
    }
    return negative ? -all : all;
  }

  std::optional<Change> change() {
    Change change{.time = hours(2)};
    if (!take(',')) return std::nullopt;
    if (take('M')) {
      change.form = Change::Form::kWeekday;
      const auto month = number(12);
      const auto week = month && take('.') ? number(5) : std::nullopt;
      const auto day = week && take('.') ? number(6) : std::nullopt;
      if (!day || *month == 0 || *week == 0) return std::nullopt;
      change.month = *month;
      change.week = *week;
      change.day = *day;
    } else {
      if (take('J')) change.form = Change::Form::kJulian;
      const auto day = number(365);
      if (!day || (change.form == Change::Form::kJulian && *day == 0)) return std::nullopt;
      change.day = *day;
    }
    if (take('/')) {
      const auto time = offset(167);
      if (!time) return std::nullopt;
      change.time = *time;
    }
    return change;
  }

  std::string_view rest_;
};

// The midnight that begins the day, as if the wall's clock were UTC's.
seconds TimeZone::Change::day_of(int year) const {
  const std::chrono::year y(year);
  if (form == Form::kWeekday) {
    const std::chrono::weekday weekday(static_cast<unsigned>(day));
    const std::chrono::month m(static_cast<unsigned>(month));
    const std::chrono::sys_days date =
        week == 5 ? std::chrono::sys_days(y / m / weekday[std::chrono::last])
                  : std::chrono::sys_days(y / m / weekday[static_cast<unsigned>(week)]);
    return date.time_since_epoch();
  }
  int after = day;
  if (form == Form::kJulian) {
    // 29 February has no number.
    after = day - 1 + (y.is_leap() && day > 59 ? 1 : 0);
  }
  return (std::chrono::sys_days(y / 1 / 1) + days(after)).time_since_epoch();
}

Result<TimeZone> TimeZone::parse(std::string_view file) {
  auto counts = read_counts(file);
  if (!counts || file.size() < kHeader + counts->bytes(4)) return bad("its header is wrong");
  size_t width = 4;
  if (file[4] >= '2') {
    // The same again with 64 bits, and a rule for the time after.
    file.remove_prefix(kHeader + counts->bytes(4));
    width = 8;
    counts = read_counts(file);
    if (!counts || file.size() < kHeader + counts->bytes(8))
      return bad("its second header is wrong");
  }
  file.remove_prefix(kHeader);
  if (counts->types == 0) return bad("it has no offset");
  const std::string_view times = file.substr(0, counts->times * width);
  const std::string_view of_times = file.substr(times.size(), counts->times);
  const std::string_view types = file.substr(times.size() + of_times.size(), counts->types * 6);
  std::vector<seconds> offsets;
  for (size_t i = 0; i < counts->types; ++i) {
    offsets.emplace_back(big_endian(types.substr(6 * i, 4)));
    if (std::chrono::abs(offsets.back()) > kMostOffset) return bad("an offset is too large");
  }
  TimeZone zone;
  zone.first_ = offsets.front();
  for (size_t i = 0; i < counts->times; ++i) {
    const seconds at(big_endian(times.substr(i * width, width)));
    const auto type = static_cast<unsigned char>(of_times[i]);
    if (type >= offsets.size()) return bad("it names an offset that it has not");
    if (!zone.starts_.empty() && zone.starts_.back().at >= at)
      return bad("its times are in no order");
    zone.starts_.push_back({at, offsets[type]});
  }
  if (width == 4) return zone;
  std::string_view footer = file.substr(counts->bytes(8));
  if (!footer.starts_with('\n') || !footer.ends_with('\n') || footer.size() < 2) {
    return bad("it has no end");
  }
  footer = footer.substr(1, footer.size() - 2);
  if (footer.empty()) return zone;
  const auto rule = Footer(footer).read();
  if (!rule) return bad("the rule at its end is wrong");
  zone.has_rule_ = true;
  zone.rule_ = *rule;
  return zone;
}

ZonePeriod TimeZone::period_at(seconds instant) const {
  const auto next = std::ranges::upper_bound(starts_, instant, {}, &Start::at);
  if (next == starts_.end() && has_rule_) {
    return period_by_rule(instant, starts_.empty() ? seconds::min() : starts_.back().at);
  }
  ZonePeriod period{.offset = next == starts_.begin() ? first_ : std::prev(next)->offset};
  if (next != starts_.begin()) period.begin = std::prev(next)->at;
  if (next != starts_.end()) period.end = next->at;
  return period;
}

ZonePeriod TimeZone::period_by_rule(seconds instant, seconds least) const {
  if (!rule_.has_summer) return {.begin = least, .offset = rule_.standard};
  // Beyond the years of the calendar nothing changes.
  constexpr seconds kFar = days(365 * 20'000);
  const auto within = std::clamp(instant, -kFar, kFar);
  const std::chrono::year_month_day date(
      std::chrono::floor<days>(std::chrono::sys_seconds(within + rule_.standard)));
  std::vector<Start> changes;
  for (int year = static_cast<int>(date.year()) - 1; year <= static_cast<int>(date.year()) + 1;
       ++year) {
    changes.push_back({rule_.begin.day_of(year) + rule_.begin.time - rule_.standard, rule_.summer});
    changes.push_back({rule_.end.day_of(year) + rule_.end.time - rule_.summer, rule_.standard});
  }
  std::ranges::stable_sort(changes, {}, &Start::at);
  const auto next = std::ranges::upper_bound(changes, within, {}, &Start::at);
  ZonePeriod period{.begin = least, .offset = rule_.standard};
  if (next != changes.begin()) {
    period.begin = std::max(least, std::prev(next)->at);
    period.offset = std::prev(next)->offset;
  }
  if (next != changes.end()) period.end = next->at;
  return period;
}

bool TimeZone::is_name(std::string_view name) {
  if (name.empty() || name.size() > kMostName) return false;
  // Each part is a name of a file, and none begins with what is no letter: "..", "-".
  for (size_t start = 0; start <= name.size();) {
    const size_t end = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, end - start);
    const bool is_word = !part.empty() && ((part[0] | 0x20) >= 'a' && (part[0] | 0x20) <= 'z') &&
                         std::ranges::all_of(part, is_name_character);
    if (!is_word) return false;
    start = end + 1;
  }
  return true;
}

}  // namespace lambent
