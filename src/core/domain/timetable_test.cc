#include "core/domain/timetable.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

// Seconds since the epoch of a minute of UTC.
seconds at(int year, unsigned month, unsigned day, int hour = 0, int minute = 0) {
  const std::chrono::sys_days date{std::chrono::year(year) / month / day};
  return date.time_since_epoch() + hours(hour) + minutes(minute);
}
Timetable cron(const char* text) { return Timetable::of({.cron = text}).value(); }
Timetable rate(const char* text) { return Timetable::of({.rate = text}).value(); }

TEST(Cron, HasTheFieldsOfCrontab) {
  struct {
    const char* text;
    seconds after, then;
  } cases[] = {
      {"* * * * *", at(2026, 1, 1, 0, 0), at(2026, 1, 1, 0, 1)},
      {"*/15 * * * *", at(2026, 1, 1, 0, 1), at(2026, 1, 1, 0, 15)},
      {"30 2 * * *", at(2026, 1, 1, 2, 30), at(2026, 1, 2, 2, 30)},
      {"0 8-18/5 * * *", at(2026, 1, 1, 9), at(2026, 1, 1, 13)},
      {"0 9 * * mon-fri", at(2026, 11, 27, 9), at(2026, 11, 30, 9)},
      {"0 0 1 jan,jul *", at(2026, 2, 1), at(2026, 7, 1)},
      {"0 0 * * 7", at(2026, 11, 28), at(2026, 11, 29)},
      {"0 0 29 2 *", at(2026, 1, 1), at(2028, 2, 29)},
      {"0 0 29 2 *", at(2096, 3, 1), at(2104, 2, 29)},
      {"59 23 31 12 *", at(2026, 12, 31, 23, 59), at(2027, 12, 31, 23, 59)},
      // Either day is enough where both are given.
      {"0 0 13 * fri", at(2026, 11, 14), at(2026, 11, 20)},
      {"0 0 13 * fri", at(2026, 12, 5), at(2026, 12, 11)},
      {"@hourly", at(2026, 1, 1, 5, 30), at(2026, 1, 1, 6)},
      {"@weekly", at(2026, 11, 28), at(2026, 11, 29)},
      {"10/20 * * * *", at(2026, 1, 1, 0, 30), at(2026, 1, 1, 0, 50)},
  };
  for (const auto& [text, after, then] : cases) {
    EXPECT_EQ(cron(text).next(after), then) << text;
  }
}

TEST(Cron, RefusesWhatItCannotMean) {
  for (const char* text :
       {"", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *",
        "* * * * 8", "5-1 * * * *", "*/0 * * * *", "*/99 * * * *", "a * * * *", "1,,2 * * * *",
        "1- * * * *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "@never", "-1 * * * *", "+1 * * * *"}) {
    EXPECT_EQ(Cron::parse(text).error().code, ErrorCode::kInvalidArgument) << text;
  }
}

// The next one by looking at every minute.
TEST(Cron, FindsWhatALookAtEveryMinuteFinds) {
  for (const char* text :
       {"7 3 */5 * 2", "*/7 5-9,20 1,15,31 */2 *", "0 12 * 2 mon", "59 * 28-31 * *"}) {
    const Cron parsed = Cron::parse(text).value();
    WallMinute minute(std::chrono::local_days(std::chrono::year(2027) / 12 / 30));
    const WallMinute end = minute + std::chrono::days(120);
    while (minute < end) {
      const WallMinute found = parsed.next(minute).value();
      for (WallMinute each = minute; each < std::min(found, end); each += minutes(1)) {
        ASSERT_FALSE(parsed.matches(each)) << text;
      }
      EXPECT_TRUE(parsed.matches(found)) << text;
      minute = found + minutes(1);
    }
  }
}

TEST(Rate, IsAMultipleOfItsInterval) {
  EXPECT_EQ(rate("5 minutes").next(at(2026, 1, 1, 0, 3)), at(2026, 1, 1, 0, 5));
  EXPECT_EQ(rate("1 hour").next(at(2026, 1, 1, 1)), at(2026, 1, 1, 2));
  EXPECT_EQ(rate("1 day").next(at(2026, 1, 1, 1)), at(2026, 1, 2));
  for (const char* text : {"", "5", "5minutes", "0 minutes", "-1 hour", "5 weeks", "1.5 hours",
                           "5  minutes", "99999999999999999999 days"}) {
    EXPECT_EQ(parse_rate(text).error().code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST(Firings, BeginWhenTheyAreDue) {
  const Timetable table = cron("*/5 * * * *");
  const seconds due = at(2026, 1, 1, 0, 5);
  EXPECT_FALSE(decide_firing(table, due, due - seconds(1), false).fires);
  const FiringDecision now = decide_firing(table, due, due, false);
  EXPECT_EQ(now.fires, due);
  EXPECT_FALSE(now.missed);
  EXPECT_EQ(now.next, at(2026, 1, 1, 0, 10));
  EXPECT_EQ(decide_firing(table, due, due + seconds(60), false).fires, due);
}

TEST(Firings, ThatWereMissedAreMadeUpForByTheLastIfAtAll) {
  const Timetable table = cron("*/5 * * * *");
  const seconds due = at(2025, 1, 1, 0, 5);
  const seconds now = at(2026, 1, 1, 0, 7);  // a year later
  const FiringDecision skips = decide_firing(table, due, now, false);
  EXPECT_FALSE(skips.fires);
  EXPECT_TRUE(skips.missed);
  EXPECT_EQ(skips.next, at(2026, 1, 1, 0, 10));
  const FiringDecision makes_up = decide_firing(table, due, now, true);
  EXPECT_EQ(makes_up.fires, at(2026, 1, 1, 0, 5));
  EXPECT_EQ(makes_up.next, at(2026, 1, 1, 0, 10));
  // One that is seldom is found as well.
  EXPECT_EQ(decide_firing(cron("0 0 1 1 *"), at(2024, 1, 1), at(2026, 6, 1), true).fires,
            at(2026, 1, 1));
}

TEST(Firings, AreNotBegunTwiceWhenTheClockGoesBack) {
  const Timetable table = cron("*/5 * * * *");
  const FiringDecision first =
      decide_firing(table, at(2026, 1, 1, 0, 5), at(2026, 1, 1, 0, 5), false);
  const FiringDecision again = decide_firing(table, *first.next, at(2026, 1, 1, 0, 4), false);
  EXPECT_FALSE(again.fires);
  EXPECT_EQ(again.next, first.next);
}

TEST(Schedules, AreReadAsTheyAreWritten) {
  const Schedules schedules = {
      {.name = "a", .cron = "0 2 * * *", .timezone = "UTC", .payload = R"({"n":1})"},
      {.name = "b", .rate = "5 minutes", .catch_up = true}};
  EXPECT_TRUE(validate(schedules).ok());
  EXPECT_EQ(parse_schedules(text_of(schedules)).value(), schedules);
  EXPECT_EQ(text_of({}), "");
  EXPECT_TRUE(parse_schedules("").value().empty());
  for (const char* text : {"{}", "[1]", "[{\"nome\":\"a\"}]", "[{\"name\":1}]", "[", "nonsense"}) {
    EXPECT_FALSE(parse_schedules(text).ok()) << text;
  }
}

TEST(Schedules, AreRefusedThatSayTooLittleOrTooMuch) {
  const Schedule good{.name = "a", .cron = "0 2 * * *"};
  const auto refused = [&](auto change) {
    Schedule bad = good;
    change(bad);
    return !validate(Schedules{bad}).ok();
  };
  EXPECT_TRUE(refused([](Schedule& s) { s.name = ""; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.name = "a b"; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.name = std::string(65, 'a'); }));
  EXPECT_TRUE(refused([](Schedule& s) { s.cron = ""; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.rate = "5 minutes"; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.timezone = "../Zurich"; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.payload = "{"; }));
  EXPECT_TRUE(refused([](Schedule& s) { s.payload = '"' + std::string(5000, 'a') + '"'; }));
  EXPECT_FALSE(validate(Schedules{good, good}).ok());
  EXPECT_FALSE(validate(Schedules(33, good)).ok());
}

}  // namespace
}  // namespace lambent
