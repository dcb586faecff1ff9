#include "decide/scheduling/sliding_hour.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "core/base/random.h"

namespace lambent::scheduling {
namespace {

Instant at(int64_t second) { return Instant(seconds(second)); }

TEST(SlidingHour, ForgetsATimeAnHourAfterTheEndOfItsStep) {
  SlidingHour hour;
  hour.add(seconds(30), at(100));
  hour.add(seconds(5), at(105));
  EXPECT_EQ(hour.used(), seconds(35));
  EXPECT_EQ(hour.used_at(at(3709)), seconds(35));
  EXPECT_EQ(hour.used_at(at(3710)), Duration(0));
  hour.expire(at(3709));
  EXPECT_EQ(hour.used(), seconds(35));
  hour.expire(at(3710));
  EXPECT_EQ(hour.used(), Duration(0));
}

TEST(SlidingHour, TellsWhenEnoughOfItHasPassed) {
  SlidingHour hour;
  hour.add(seconds(30), at(0));
  hour.add(seconds(20), at(60));
  EXPECT_EQ(hour.when_below(seconds(51), Duration(0), at(70)), at(70));
  EXPECT_EQ(hour.when_below(seconds(50), Duration(0), at(70)), at(3610));
  EXPECT_EQ(hour.when_below(seconds(20), Duration(0), at(70)), at(3670));
  EXPECT_EQ(hour.when_below(seconds(50), seconds(15), at(70)), at(3610));
  EXPECT_EQ(hour.when_below(seconds(50), seconds(50), at(70)), kNever) << "what is more stays over";
}

TEST(SlidingHour, RemembersWhatAnotherCountedUntilThatIsOver) {
  SlidingHour before;
  before.add(seconds(30), at(10'004));
  before.add(seconds(20), at(10'064));
  const auto used = before.all_used();
  ASSERT_EQ(used.size(), 2U);
  EXPECT_EQ(used.back(), before.last_used());
  // Another program on the same clock, told in any order, counts in the same steps.
  SlidingHour after;
  after.add(seconds(1), at(10'100));
  for (const size_t each : {1, 0}) {
    const Instant now = at(10'100);
    after.remember(used[each].time, now - used[each].at, now);
  }
  EXPECT_EQ(after.used(), seconds(51));
  EXPECT_EQ(after.used_at(at(13'609)), seconds(51));
  EXPECT_EQ(after.used_at(at(13'610)), seconds(21));
  EXPECT_EQ(after.used_at(at(13'670)), seconds(1));
}

TEST(SlidingHour, RemembersNothingThatIsOverAndNothingBeforeItsClock) {
  SlidingHour hour;
  hour.remember(seconds(5), SlidingHour::kHour, at(20));
  hour.remember(-seconds(5), seconds(1), at(20));
  EXPECT_EQ(hour.last_used(), std::nullopt);
  hour.remember(seconds(5), std::chrono::minutes(30), at(20));
  EXPECT_EQ(hour.used_at(at(3609)), seconds(5));
  EXPECT_EQ(hour.used_at(at(3610)), Duration(0));
  hour.remember(seconds(5), -seconds(5), at(40));
  EXPECT_EQ(hour.used(), seconds(10));
}

TEST(SlidingHour, NeverCountsLessThanAnExactOneAndAtMostOneStepMore) {
  SeededRandom random(7);
  SlidingHour hour;
  std::deque<std::pair<Instant, Duration>> exact;
  Instant now{};
  for (int i = 0; i < 20'000; ++i) {
    now += milliseconds(random.below(4000));
    const Duration time = milliseconds(random.below(2000));
    hour.add(time, now);
    exact.emplace_back(now, time);
    Duration within_hour{};
    Duration within_more{};
    while (exact.front().first + SlidingHour::kHour + SlidingHour::kStep <= now) exact.pop_front();
    for (const auto& [when, used] : exact) {
      within_more += used;
      if (when + SlidingHour::kHour > now) within_hour += used;
    }
    ASSERT_GE(hour.used(), within_hour);
    ASSERT_LE(hour.used(), within_more);
    // What it promises comes true.
    const Duration limit = hour.used() / 2 + milliseconds(1);
    const Instant then = hour.when_below(limit, Duration(0), now);
    ASSERT_LT(hour.used_at(then), limit);
    if (then > now) {
      ASSERT_GE(hour.used_at(then - Duration(1)), limit);
    }
  }
}

TEST(SlidingHour, IsReadBackAsItWasWritten) {
  SlidingHour hour;
  hour.add(seconds(30), at(0));
  hour.add(seconds(20), at(60));
  std::string bytes;
  StateArchive to(&bytes);
  hour.archive(to);
  StateArchive from{std::string_view(bytes)};
  SlidingHour read;
  read.archive(from);
  EXPECT_TRUE(from.complete());
  EXPECT_EQ(read.used(), seconds(50));
  EXPECT_EQ(read.when_below(seconds(50), Duration(0), at(70)), at(3610));
}

}  // namespace
}  // namespace lambent::scheduling
