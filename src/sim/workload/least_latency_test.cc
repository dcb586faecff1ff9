#include "sim/workload/least_latency.h"

#include <gtest/gtest.h>

namespace lambent::workload {
namespace {

TEST(LeastLatency, IsTheWorkWhereNothingWaits) {
  LeastLatency least(1);
  least.add(seconds(0), seconds(2));
  least.add(seconds(10), seconds(4));
  EXPECT_DOUBLE_EQ(least.mean_s().value(), 3);
}

TEST(LeastLatency, LetsTheShorterInterruptTheLonger) {
  LeastLatency least(1);
  least.add(seconds(0), seconds(10));
  least.add(seconds(1), seconds(2));
  // The second from 1 to 3, the first until 12.
  EXPECT_DOUBLE_EQ(least.mean_s().value(), (12 + 2) / 2.0);
}

TEST(LeastLatency, DoesNotInterruptForOneThatTakesLonger) {
  LeastLatency least(1);
  least.add(seconds(0), seconds(3));
  least.add(seconds(1), seconds(4));
  EXPECT_DOUBLE_EQ(least.mean_s().value(), (3 + 6) / 2.0);
}

TEST(LeastLatency, IsNoLessThanTheWorkHoweverMuchIsDoneAtOnce) {
  LeastLatency least(4);
  least.add(seconds(0), seconds(2));
  least.add(seconds(0), seconds(2));
  EXPECT_DOUBLE_EQ(least.mean_s().value(), 2);
}

TEST(LeastLatency, OfNoCallsIsNone) { EXPECT_FALSE(LeastLatency(1).mean_s()); }

}  // namespace
}  // namespace lambent::workload
