#include "decide/scheduling/idle_windows.h"

#include <gtest/gtest.h>

namespace lambent::scheduling {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using Windows = IdleWindows::Windows;

Instant at(Duration since_begin) { return Instant{} + since_begin; }

TEST(IdleWindows, KeepAnInstanceForAFixedTimeUntilEnoughIsKnown) {
  IdleWindows windows({.least_samples = 3, .otherwise = minutes(10)});
  for (int i = 1; i <= 2; ++i) windows.learn(minutes(30), at(minutes(30) * i));
  EXPECT_EQ(windows.windows(at(hours(1))), (Windows{Duration(0), minutes(10)}));
  windows.learn(minutes(30), at(minutes(90)));
  EXPECT_EQ(windows.windows(at(minutes(90))), (Windows{minutes(30), minutes(31)}));
}

TEST(IdleWindows, LeaveWhoIsCalledAgainWithinAMinuteWhereItIs) {
  IdleWindows windows({.least_samples = 3});
  for (int i = 1; i <= 100; ++i) windows.learn(seconds(5), at(seconds(5) * i));
  EXPECT_EQ(windows.windows(at(seconds(500))), (Windows{Duration(0), minutes(1)}));
}

TEST(IdleWindows, WeighTheLastHourWithTheLastDay) {
  IdleWindows windows({.short_weight = 0.5, .least_samples = 3});
  for (int i = 1; i <= 20; ++i) windows.learn(minutes(40), at(minutes(40) * i));
  const Instant then = at(minutes(800));
  for (int i = 1; i <= 12; ++i) windows.learn(minutes(10), then + minutes(10) * i);
  const Windows found = windows.windows(then + hours(2));
  EXPECT_EQ(found.returns, minutes(10)) << "both terms begin at ten minutes";
  EXPECT_EQ(found.goes, (minutes(11) + minutes(41)) / 2);
  // An hour later only the day is left.
  EXPECT_EQ(windows.windows(then + hours(4)).goes, minutes(41));
}

TEST(IdleWindows, ForgetWhatIsOlderThanTheLongTerm) {
  IdleWindows windows({.least_samples = 1});
  windows.learn(hours(3), at(hours(3)));
  windows.learn(minutes(2), at(hours(40)));
  EXPECT_EQ(windows.windows(at(hours(40))), (Windows{minutes(2), minutes(3)}));
}

TEST(IdleWindows, ForgetTheOldestOfMoreThanTheyRemember) {
  IdleWindows windows({.head = 0, .tail = 1, .least_samples = 1});
  windows.learn(hours(2), at(Duration(0)));
  for (size_t i = 0; i < IdleWindows::kMostSamples; ++i) windows.learn(minutes(1), at(minutes(1)));
  EXPECT_EQ(windows.windows(at(minutes(1))).goes, minutes(2));
}

}  // namespace
}  // namespace lambent::scheduling
