#include "decide/scheduling/eviction.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace lambent::scheduling {
namespace {

constexpr Instant kNow = Instant(seconds(100));

Flow flow(Duration cold_start, Duration interarrival) {
  Flow flow;
  flow.cold_start.learn(cold_start);
  flow.interarrival.learn(interarrival);
  return flow;
}

Instant ago(Duration duration) { return kNow - duration; }

TEST(Eviction, TheLeastRecentlyUsedGoesFirst) {
  const Flow any = flow(seconds(1), seconds(1));
  const std::vector<EvictionCandidate> candidates = {
      {1, ago(seconds(5)), &any}, {2, ago(seconds(9)), &any}, {3, ago(seconds(1)), &any}};
  EXPECT_EQ(choose_victim(EvictionRule::kLeastRecentlyUsed, {}, candidates, kNow), 2u);
}

TEST(Eviction, AFunctionInItsGracePeriodOutlastsAnInactiveOneThatWasUsedLater) {
  Flow active = flow(seconds(1), seconds(1));
  active.active_until = kNow + seconds(1);
  const Flow inactive = flow(seconds(1), seconds(1));
  const std::vector<EvictionCandidate> candidates = {{1, ago(seconds(9)), &active},
                                                     {2, ago(seconds(5)), &inactive}};
  EXPECT_EQ(choose_victim(EvictionRule::kLeastRecentlyUsed, {}, candidates, kNow), 2u);
}

TEST(Eviction, ByCostARareOrQuicklyStartedFunctionGoesBeforeABusyAndSlowOne) {
  const Flow slow_start = flow(seconds(16), seconds(10));
  const Flow quick_start = flow(seconds(1), seconds(10));
  const Flow rare = flow(seconds(16), seconds(1000));
  const std::vector<EvictionCandidate> by_cold = {{1, ago(seconds(9)), &slow_start},
                                                  {2, ago(seconds(1)), &quick_start}};
  EXPECT_EQ(choose_victim(EvictionRule::kCostAware, {}, by_cold, kNow), 2u);
  const std::vector<EvictionCandidate> by_gap = {{1, ago(seconds(9)), &slow_start},
                                                 {2, ago(seconds(1)), &rare}};
  EXPECT_EQ(choose_victim(EvictionRule::kCostAware, {}, by_gap, kNow), 2u);
}

TEST(Eviction, ByWorthTheCostIsThatOfEachByteThatComesFree) {
  Flow large = flow(seconds(2), seconds(10));
  large.device_memory = Bytes::gib(4);
  Flow small = flow(seconds(1), seconds(10));
  small.device_memory = Bytes::gib(1);
  const std::vector<EvictionCandidate> candidates = {{1, ago(seconds(5)), &large},
                                                     {2, ago(seconds(5)), &small}};
  EXPECT_EQ(choose_victim(EvictionRule::kCostAware, {}, candidates, kNow), 2u);
  ASSERT_EQ(eviction_rule_from("worth"), EvictionRule::kWorth);
  EXPECT_EQ(choose_victim(EvictionRule::kWorth, {}, candidates, kNow), 1u);
}

TEST(Eviction, ByCostWithGraceAnActiveFunctionOutlastsACostlierOneThatIsNot) {
  Flow active = flow(seconds(1), seconds(10));
  active.active_until = kNow + seconds(1);
  const Flow costly = flow(seconds(16), seconds(10));
  const std::vector<EvictionCandidate> candidates = {{1, ago(seconds(5)), &active},
                                                     {2, ago(seconds(5)), &costly}};
  EXPECT_EQ(choose_victim(EvictionRule::kCostAware, {}, candidates, kNow), 1u);
  EXPECT_EQ(choose_victim(EvictionRule::kCostAwareGrace, {}, candidates, kNow), 2u);
  // Whatever the grace, what waits is missed first.
  Flow waits = costly;
  waits.pending = 1;
  const std::vector<EvictionCandidate> one_waits = {{1, ago(seconds(5)), &active},
                                                    {2, ago(seconds(5)), &waits}};
  EXPECT_EQ(choose_victim(EvictionRule::kCostAwareGrace, {}, one_waits, kNow), 1u);
}

TEST(Eviction, ByCostACpuVariantCountsAsItStartsOnTheHost) {
  Flow variant = flow(seconds(20), seconds(10));
  variant.host_cold_start.learn(milliseconds(100));
  const Flow plain = flow(seconds(2), seconds(10));
  const std::vector<EvictionCandidate> candidates = {{1, ago(seconds(9)), &variant, true},
                                                     {2, ago(seconds(9)), &plain}};
  EXPECT_EQ(choose_victim(EvictionRule::kCostAware, {}, candidates, kNow), 1u);
}

TEST(Eviction, ByCostALongSilenceCountsAsTheGap) {
  // Once every second, but silent for 90: it is not believed to come back soon.
  const Flow gone = flow(seconds(2), seconds(1));
  const Flow steady = flow(seconds(2), seconds(20));
  const std::vector<EvictionCandidate> candidates = {{1, ago(seconds(90)), &gone},
                                                     {2, ago(seconds(10)), &steady}};
  EXPECT_EQ(choose_victim(EvictionRule::kCostAware, {}, candidates, kNow), 1u);
}

TEST(Eviction, ByCostAFunctionThatHasWorkWaitingGoesLast) {
  Flow awaited = flow(milliseconds(1), seconds(1000));
  awaited.pending = 1;
  const Flow precious = flow(seconds(100), seconds(1));
  const std::vector<EvictionCandidate> candidates = {{1, ago(seconds(9)), &awaited},
                                                     {2, ago(seconds(1)), &precious}};
  EXPECT_EQ(choose_victim(EvictionRule::kCostAware, {}, candidates, kNow), 2u);
}

TEST(Eviction, ByTheGapsAFunctionThatIsDueOutlastsOneThatHasJustBeenCalled) {
  Foresight foresight({}, true);
  Flow steady = flow(seconds(5), seconds(100)), bursty = flow(seconds(5), seconds(100));
  // The one has been silent for 90 s, and is called every 100; the other was called just now, and
  // is called in bursts, ten minutes apart.
  for (const auto& [function, flow, gap] :
       {std::tuple(FunctionId{1}, &steady, seconds(100)), {FunctionId{2}, &bursty, seconds(600)}}) {
    for (int i = 0; i < 8; ++i) {
      const Instant now = Instant(gap * i);
      foresight.arrived(function, *flow, now);
      flow->last_arrival = now;
    }
  }
  steady.last_arrival = ago(seconds(90));
  bursty.last_arrival = ago(seconds(5));
  const std::vector<EvictionCandidate> candidates = {
      {1, ago(seconds(90)), &steady, false, FunctionId{1}, &foresight},
      {2, ago(seconds(5)), &bursty, false, FunctionId{2}, &foresight}};
  EXPECT_EQ(choose_victim(EvictionRule::kForeseen, {}, candidates, kNow), 2u);
}

TEST(Eviction, ByTheGapsIsByCostWhereNothingForesees) {
  const Flow slow_start = flow(seconds(16), seconds(10));
  const Flow quick_start = flow(seconds(1), seconds(10));
  const std::vector<EvictionCandidate> candidates = {{1, ago(seconds(9)), &slow_start},
                                                     {2, ago(seconds(1)), &quick_start}};
  EXPECT_EQ(choose_victim(EvictionRule::kForeseen, {}, candidates, kNow), 2u);
}

}  // namespace
}  // namespace lambent::scheduling
