#include "decide/slice_scheduling/recent_rate.h"

#include <gtest/gtest.h>

namespace lambent::slice_scheduling {
namespace {

Instant at(double s) { return Instant(from_seconds(s)); }

TEST(RecentRate, OfAnEvenStreamIsItsRate) {
  RecentRate rate(seconds(1));
  for (int i = 0; i < 1000; ++i) rate.add(2, at(5 + i * 0.05));
  EXPECT_NEAR(rate.per_s(at(5 + 999.5 * 0.05)), 40, 0.1);
}

TEST(RecentRate, FallsToAThirdInItsMemory) {
  RecentRate rate(seconds(4));
  rate.add(8, at(100));
  EXPECT_DOUBLE_EQ(rate.per_s(at(100)), 2);
  EXPECT_NEAR(rate.per_s(at(104)), 2 / std::exp(1), 1e-9);
  EXPECT_NEAR(rate.per_s(at(1000)), 0, 1e-9);
}

TEST(RecentRate, IsZeroBeforeAnythingCame) { EXPECT_EQ(RecentRate(seconds(1)).per_s(at(1e6)), 0); }

TEST(RecentRate, DoesNotDependOnWhenItIsAsked) {
  RecentRate asked(seconds(1)), left(seconds(1));
  for (int i = 0; i < 50; ++i) {
    asked.add(1, at(i * 0.37));
    left.add(1, at(i * 0.37));
    EXPECT_GT(asked.per_s(at(i * 0.37 + 0.2)), 0);
  }
  EXPECT_EQ(asked.per_s(at(20)), left.per_s(at(20)));
}

}  // namespace
}  // namespace lambent::slice_scheduling
