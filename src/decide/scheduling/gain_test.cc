#include "decide/scheduling/gain.h"

#include <gtest/gtest.h>

#include <vector>

namespace lambent::scheduling {
namespace {

Share share(double left_s, double slowdown) { return {from_seconds(left_s), slowdown}; }

// What two runs take together, from the instant at which the second could begin, if it begins then
// or when the first is over.
double sum_of_ends_s(double first_s, double second_s, double slowdown, bool beside) {
  if (!beside) return first_s + first_s + second_s;
  const double shorter_s = std::min(first_s, second_s);
  const double longer_s = std::max(first_s, second_s);
  const double first_end_s = shorter_s * (1 + slowdown);
  return first_end_s + first_end_s + longer_s - shorter_s;
}

TEST(GainsBeside, OfTwoRunsWhatEndsSoonerTogether) {
  for (const double slowdown : {0.0, 0.2, 0.5, 0.8, 1.0, 1.2, 3.0}) {
    for (const double left_s : {0.01, 0.3, 1.0, 2.0, 10.0}) {
      for (const double takes_s : {0.02, 0.4, 0.9, 4.0}) {
        const double beside = sum_of_ends_s(left_s, takes_s, slowdown, true);
        const double after = sum_of_ends_s(left_s, takes_s, slowdown, false);
        if (std::abs(beside - after) < 1e-6) continue;
        const Share at_work[] = {share(left_s, slowdown)};
        EXPECT_EQ(gains_beside(share(takes_s, slowdown), at_work), beside < after)
            << slowdown << " " << left_s << " " << takes_s;
      }
    }
  }
}

// What one more beside two others costs them later in any case is no reason to wait.
TEST(GainsNow, FollowsSeveralRunsToTheirEnds) {
  // The times to the three ends add up to 18.0 s if it begins now, else to 18.2.
  const Share at_work[] = {share(1, 0.8), share(6, 0.8)};
  EXPECT_TRUE(gains_now(share(3, 0.8), at_work, 0));
  EXPECT_FALSE(gains_beside(share(3, 0.8), at_work)) << "which counts the later cost too";
  const Share shorter[] = {share(1, 0.8), share(2, 0.8)};
  EXPECT_FALSE(gains_now(share(5, 0.8), shorter, 0));
}

TEST(GainsNow, IsTheSameAsBesideOneOtherWhereNothingWaits) {
  for (const double slowdown : {0.0, 0.2, 0.5, 0.8, 1.0, 1.2, 3.0}) {
    for (const double left_s : {0.01, 0.3, 1.1, 2.0, 10.0}) {
      for (const double takes_s : {0.02, 0.4, 0.9, 4.0}) {
        const Share at_work[] = {share(left_s, slowdown)};
        const Share newcomer = share(takes_s, slowdown);
        EXPECT_EQ(gains_now(newcomer, at_work, 0), gains_beside(newcomer, at_work))
            << slowdown << " " << left_s << " " << takes_s;
      }
    }
  }
}

TEST(GainsNow, CountsWhatWaitsWhereRunsTogetherDoMore) {
  const Share at_work[] = {share(1, 0.8)};
  EXPECT_FALSE(gains_now(share(1, 0.8), at_work, 0));
  EXPECT_FALSE(gains_now(share(1, 0.8), at_work, 2));
  EXPECT_TRUE(gains_now(share(1, 0.8), at_work, 7));
  const Share turns[] = {share(1, 1)};
  EXPECT_FALSE(gains_now(share(1, 1), turns, 1000)) << "by turns they do no more";
}

TEST(GainsBeside, IsLostToTheOneThatIsSlowedMost) {
  const Share at_work[] = {share(1, 0), share(1, 0)};
  EXPECT_TRUE(gains_beside(share(10, 0.5), at_work));
  const Share sensitive[] = {share(1, 0), share(5, 3)};
  EXPECT_FALSE(gains_beside(share(10, 0.5), sensitive));
}

TEST(LeastLeft, IsWhatTheOneAtWorkWouldHaveToHaveLeft) {
  const Share newcomer = share(1, 1);
  const Share at_work[] = {share(1.5, 1)};
  ASSERT_FALSE(gains_beside(newcomer, at_work));
  const Duration least = least_left_that_gains(newcomer, at_work);
  EXPECT_EQ(least, seconds(2));
  const Share later[] = {{least, 1}};
  EXPECT_TRUE(gains_beside(newcomer, later));
  EXPECT_EQ(least_left_that_gains(newcomer, later), Duration(0));
}

TEST(LeftOf, GrowsAgainForARunThatIsLate) {
  EXPECT_EQ(left_of(seconds(4), seconds(1)), seconds(3));
  EXPECT_EQ(left_of(seconds(4), seconds(4)), seconds(1));
  EXPECT_EQ(left_of(seconds(4), seconds(60)), seconds(56));
}

class GainsBySecond : public testing::Test {
 protected:
  SecondSandbox second_{.slowdown = 0.2,
                        .at_work = 1,
                        .most_at_once = 2,
                        .pending = 20,
                        .takes = seconds(1),
                        .cold_start = seconds(5)};
};

TEST_F(GainsBySecond, WhereEnoughWaits) {
  EXPECT_TRUE(gains_by_second(second_));
  second_.pending = 8;
  EXPECT_FALSE(gains_by_second(second_));
}

TEST_F(GainsBySecond, NotWhereContextsTakeTurns) {
  second_.slowdown = 1;
  second_.pending = 10'000;
  EXPECT_FALSE(gains_by_second(second_));
  second_.at_work = 0;  // another device, with nothing to do
  EXPECT_TRUE(gains_by_second(second_));
}

TEST_F(GainsBySecond, NotWhereTheDeviceRunsNoMoreAtOnce) {
  second_.most_at_once = 1;
  EXPECT_FALSE(gains_by_second(second_));
}

TEST_F(GainsBySecond, NotIfTheQueueIsServedBeforeItIsReady) {
  second_.takes = milliseconds(100);
  EXPECT_FALSE(gains_by_second(second_));
}

TEST_F(GainsBySecond, NotIfWhatMakesWayIsMissedMore) {
  second_.drives_out = seconds(30);
  EXPECT_FALSE(gains_by_second(second_));
}

}  // namespace
}  // namespace lambent::scheduling
