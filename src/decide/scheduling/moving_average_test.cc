#include "decide/scheduling/moving_average.h"

#include <gtest/gtest.h>

namespace lambent::scheduling {
namespace {

Instant at(double when) { return Instant(from_seconds(when)); }

TEST(MovingAverage, OfNoTimeIsTheReading) {
  MovingAverage average{Duration(0)};
  EXPECT_DOUBLE_EQ(average.add(0.3, at(1)), 0.3);
  EXPECT_DOUBLE_EQ(average.add(0.9, at(1.2)), 0.9);
}

TEST(MovingAverage, FollowsAReadingByTheTimeThatPassed) {
  MovingAverage average{seconds(1)};
  EXPECT_DOUBLE_EQ(average.add(0, at(5)), 0);
  EXPECT_NEAR(average.add(1, at(6)), 1 - std::exp(-1.0), 1e-9);
  // As far as in one step of as long.
  MovingAverage often{seconds(1)};
  often.add(0, at(5));
  double last = 0;
  for (int i = 1; i <= 10; ++i) last = often.add(1, at(5 + 0.1 * i));
  EXPECT_NEAR(last, 1 - std::exp(-1.0), 1e-9);
}

TEST(MovingAverage, TakesNoHarmFromAClockThatIsSetBack) {
  MovingAverage average{seconds(1)};
  average.add(0.5, at(100));
  EXPECT_DOUBLE_EQ(average.add(1, at(10)), 0.5);
  EXPECT_NEAR(average.add(1, at(11)), 1 - 0.5 * std::exp(-1.0), 1e-9);
}

}  // namespace
}  // namespace lambent::scheduling
