// TimeZone: how far clocks on the wall of a zone are ahead of UTC, and since when, as the files of
// the time zone database tell it (TZif, RFC 8536). A value and pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace lambent {

// A time in which the clocks of a zone are not set. Instants are seconds since the Unix epoch.
struct ZonePeriod {
  seconds begin = seconds::min();
  seconds end = seconds::max();  // the first instant of the next
  seconds offset{};              // of the wall's clock, ahead of UTC
};

class TimeZone {
 public:
  // UTC.
  TimeZone() = default;
  // Of a file of the database. INVALID_ARGUMENT.
  static Result<TimeZone> parse(std::string_view file);

  ZonePeriod period_at(seconds instant) const;

  // Whether a name may be one of the database, such as Europe/Zurich; it is the path of a file.
  static bool is_name(std::string_view name);

 private:
  // The rule for the time after the last period of the list: a POSIX TZ text.
  struct Change {
    enum class Form { kJulian, kDayOfYear, kWeekday } form = Form::kDayOfYear;
    int month = 0, week = 0, day = 0;
    seconds time{};  // of that day, by the clock before the change
    seconds day_of(int year) const;
  };
  struct Rule {
    seconds standard{}, summer{};
    bool has_summer = false;
    Change begin, end;
  };
  struct Start {
    seconds at;
    seconds offset;
  };
  class Footer;

  ZonePeriod period_by_rule(seconds instant, seconds least) const;

  std::vector<Start> starts_;  // in order
  seconds first_{};            // the offset before them
  bool has_rule_ = false;
  Rule rule_;
};

}  // namespace lambent
