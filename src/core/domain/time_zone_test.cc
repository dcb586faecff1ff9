#include "core/domain/time_zone.h"

#include <gtest/gtest.h>

#include "core/domain/timetable.h"

namespace lambent {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

seconds at(int year, unsigned month, unsigned day, int hour = 0, int minute = 0) {
  const std::chrono::sys_days date{std::chrono::year(year) / month / day};
  return date.time_since_epoch() + hours(hour) + minutes(minute);
}

std::string number(int64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

struct Change {
  seconds at;
  seconds offset;
};

// A file as zic writes it, with nothing in its part of 32 bits.
std::string file_of(seconds first, const std::vector<Change>& changes, const std::string& rule) {
  const auto header = [](size_t times, size_t types) {
    return "TZif2" + std::string(15, '\0') + number(0, 4) + number(0, 4) + number(0, 4) +
           number(static_cast<int64_t>(times), 4) + number(static_cast<int64_t>(types), 4) +
           number(4, 4);
  };
  std::string text = header(0, 1) + number(0, 6) + std::string("UTC\0", 4);
  text += header(changes.size(), changes.size() + 1);
  for (const Change& change : changes) text += number(change.at.count(), 8);
  for (size_t i = 0; i < changes.size(); ++i) text += static_cast<char>(i + 1);
  text += number(first.count(), 4) + number(0, 2);
  for (const Change& change : changes) text += number(change.offset.count(), 4) + number(0, 2);
  return text + std::string("UTC\0", 4) + "\n" + rule + "\n";
}

TimeZone zone_of(const std::string& rule) {
  const auto zone = TimeZone::parse(file_of(seconds(0), {}, rule));
  EXPECT_TRUE(zone.ok()) << rule;
  return zone.ok() ? *zone : TimeZone();
}
const char* const kZurich = "CET-1CEST,M3.5.0,M10.5.0/3";

TEST(TimeZone, HasTheOffsetsOfItsFileAndThenThoseOfItsRule) {
  const TimeZone zone =
      TimeZone::parse(file_of(minutes(34),
                              {{at(1900, 1, 1), hours(1)}, {at(1980, 4, 6, 1), hours(2)}}, kZurich))
          .value();
  EXPECT_EQ(zone.period_at(at(1800, 1, 1)).offset, minutes(34));
  EXPECT_EQ(zone.period_at(at(1900, 1, 1) - seconds(1)).offset, minutes(34));
  EXPECT_EQ(zone.period_at(at(1900, 1, 1)).offset, hours(1));
  EXPECT_EQ(zone.period_at(at(1950, 1, 1)).end, at(1980, 4, 6, 1));
  // 2026: from 29 March 01:00 UTC to 25 October 01:00 UTC.
  EXPECT_EQ(zone.period_at(at(2026, 3, 29, 1) - seconds(1)).offset, hours(1));
  const ZonePeriod summer = zone.period_at(at(2026, 7, 1));
  EXPECT_EQ(summer.offset, hours(2));
  EXPECT_EQ(summer.begin, at(2026, 3, 29, 1));
  EXPECT_EQ(summer.end, at(2026, 10, 25, 1));
  EXPECT_EQ(zone.period_at(at(2026, 10, 25, 1)).offset, hours(1));
}

TEST(TimeZone, UnderstandsTheFormsOfRules) {
  struct {
    const char* rule;
    seconds instant, offset;
  } cases[] = {
      {"UTC0", at(2026, 7, 1), seconds(0)},
      {"<+0545>-5:45", at(2026, 7, 1), hours(5) + minutes(45)},
      {"EST5EDT,M3.2.0,M11.1.0", at(2026, 7, 1), -hours(4)},
      {"EST5EDT,M3.2.0,M11.1.0", at(2026, 12, 1), -hours(5)},
      // Summer over the turn of the year.
      {"AEST-10AEDT,M10.1.0,M4.1.0/3", at(2026, 1, 1), hours(11)},
      {"AEST-10AEDT,M10.1.0,M4.1.0/3", at(2026, 6, 1), hours(10)},
      // Half an hour.
      {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", at(2026, 1, 1), hours(11)},
      // The day before the last Sunday, and hours of another day.
      {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", at(2026, 3, 29, 1), -hours(1)},
      {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", at(2026, 3, 29, 0), -hours(2)},
      // By the number of the day, with and without 29 February.
      {"AAA0BBB,J60/0,J300/0", at(2028, 3, 1, 0), hours(1)},
      {"AAA0BBB,J60/0,J300/0", at(2028, 2, 29, 23), seconds(0)},
      {"AAA0BBB,59/0,300/0", at(2028, 2, 29, 0), hours(1)},
      // Summer all the year.
      {"XXX3EDT4,0/0,J365/23", at(2026, 12, 31, 23), -hours(4)},
  };
  for (const auto& [rule, instant, offset] : cases) {
    EXPECT_EQ(zone_of(rule).period_at(instant).offset, offset) << rule;
  }
}

TEST(TimeZone, RefusesWhatIsNoFileOfOne) {
  const std::string good = file_of(seconds(0), {{at(2000, 1, 1), hours(1)}}, kZurich);
  EXPECT_TRUE(TimeZone::parse(good).ok());
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(TimeZone::parse(good.substr(0, length)).ok()) << length;
  }
  for (const char* rule : {"CET", "CET-1CEST", "C-1", "CET-1CEST,M13.1.0,M10.5.0", "CET-25",
                           "CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5.0", "CET-1 ", "<CET-1",
                           "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,J0,J9", "CET-1CEST,366,9"}) {
    EXPECT_FALSE(TimeZone::parse(file_of(seconds(0), {}, rule)).ok()) << rule;
  }
  EXPECT_FALSE(TimeZone::parse(file_of(hours(27), {}, "UTC0")).ok());
  EXPECT_FALSE(
      TimeZone::parse(file_of(seconds(0), {{seconds(9), hours(1)}, {seconds(9), hours(2)}}, "UTC0"))
          .ok());
}

TEST(TimeZone, HasANameThatLeavesNoFolder) {
  for (const char* name : {"UTC", "Europe/Zurich", "America/Argentina/Buenos_Aires", "Etc/GMT+5"}) {
    EXPECT_TRUE(TimeZone::is_name(name)) << name;
  }
  for (const char* name : {"", "/etc/passwd", "../passwd", "Europe/../../passwd", "Europe//Zurich",
                           "Europe/", ".", "Europe/ Zurich", "-x"}) {
    EXPECT_FALSE(TimeZone::is_name(name)) << name;
  }
}

// The instants of a cron, from `after` on.
std::vector<seconds> of(const char* cron, const char* rule, seconds after, size_t count) {
  const Timetable table = Timetable::of({.cron = cron}, zone_of(rule)).value();
  std::vector<seconds> all;
  while (all.size() < count) {
    after = table.next(after).value();
    all.push_back(after);
  }
  return all;
}

TEST(TimetableInAZone, FollowsTheClockOnTheWall) {
  EXPECT_EQ(of("30 9 * * *", kZurich, at(2026, 3, 27, 12), 3),
            (std::vector<seconds>{at(2026, 3, 28, 8, 30), at(2026, 3, 29, 7, 30),
                                  at(2026, 3, 30, 7, 30)}));
  EXPECT_EQ(of("0 0 * * *", "EST5EDT,M3.2.0,M11.1.0", at(2026, 1, 1, 5), 1),
            (std::vector<seconds>{at(2026, 1, 2, 5)}));
}

TEST(TimetableInAZone, IsDueOnceOnADayAlsoWhenClocksAreSet) {
  // 02:30 is skipped on 29 March and comes twice on 25 October.
  EXPECT_EQ(
      of("30 2 * * *", kZurich, at(2026, 3, 28, 0), 3),
      (std::vector<seconds>{at(2026, 3, 28, 1, 30), at(2026, 3, 29, 1), at(2026, 3, 30, 0, 30)}));
  EXPECT_EQ(of("30 2 * * *", kZurich, at(2026, 10, 24, 12), 2),
            (std::vector<seconds>{at(2026, 10, 25, 0, 30), at(2026, 10, 26, 1, 30)}));
  // A worker that looks between the two has begun it already.
  EXPECT_EQ(of("30 2 * * *", kZurich, at(2026, 10, 25, 1), 1),
            (std::vector<seconds>{at(2026, 10, 26, 1, 30)}));
}

TEST(TimetableInAZone, OfEveryHourFollowsTheTimeThatPasses) {
  const auto spring = of("*/30 * * * *", kZurich, at(2026, 3, 28, 23), 10);
  const auto autumn = of("*/30 * * * *", kZurich, at(2026, 10, 24, 23), 10);
  for (const auto& instants : {spring, autumn}) {
    for (size_t i = 1; i < instants.size(); ++i) {
      EXPECT_EQ(instants[i] - instants[i - 1], minutes(30));
    }
  }
  // A zone of quarters of an hour.
  EXPECT_EQ(of("0 * * * *", "<+0545>-5:45", at(2026, 1, 1), 1),
            (std::vector<seconds>{at(2026, 1, 1, 0, 15)}));
}

}  // namespace
}  // namespace lambent
