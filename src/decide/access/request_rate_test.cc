#include "decide/access/request_rate.h"

#include <gtest/gtest.h>

namespace lambent::access {
namespace {

Instant at(double seconds) { return Instant(from_seconds(seconds)); }

int taken_at_once(RequestRate& rate, Instant now) {
  int taken = 0;
  while (taken < 1000 && !rate.take(now)) ++taken;
  return taken;
}

TEST(RequestRateTest, WithoutALimitEveryRequestPasses) {
  RequestRate rate;
  EXPECT_EQ(taken_at_once(rate, at(0)), 1000);
}

TEST(RequestRateTest, ABurstIsOneSecondsWorth) {
  RequestRate rate;
  rate.set(10, at(0));
  EXPECT_EQ(taken_at_once(rate, at(0)), 10);
  EXPECT_EQ(taken_at_once(rate, at(0.5)), 5);
  EXPECT_EQ(taken_at_once(rate, at(100)), 10);
}

TEST(RequestRateTest, ARefusedRequestIsToldWhenTheNextPasses) {
  RequestRate rate;
  rate.set(4, at(0));
  taken_at_once(rate, at(0));
  const auto wait = rate.take(at(0));
  ASSERT_TRUE(wait.has_value());
  EXPECT_EQ(*wait, milliseconds(250));
  EXPECT_FALSE(rate.take(at(0.25)).has_value());
  EXPECT_TRUE(rate.take(at(0.25)).has_value());
}

TEST(RequestRateTest, ARateBelowOneASecondLetsOneThroughInItsTime) {
  RequestRate rate;
  rate.set(0.1, at(0));
  EXPECT_FALSE(rate.take(at(0)).has_value());
  EXPECT_EQ(*rate.take(at(0)), seconds(10));
  EXPECT_FALSE(rate.take(at(10)).has_value());
}

TEST(RequestRateTest, AChangedRateGivesNoNewBurst) {
  RequestRate rate;
  rate.set(10, at(0));
  taken_at_once(rate, at(0));
  rate.set(20, at(0));
  EXPECT_EQ(taken_at_once(rate, at(0)), 0);
  EXPECT_EQ(taken_at_once(rate, at(0.5)), 10);
  rate.set(2, at(1));
  EXPECT_EQ(taken_at_once(rate, at(1)), 2);
  rate.set(std::nullopt, at(1));
  EXPECT_EQ(taken_at_once(rate, at(1)), 1000);
}

}  // namespace
}  // namespace lambent::access
