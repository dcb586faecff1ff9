// The baselines that give a whole function one slice: what they decide, and random worlds.
#include <gtest/gtest.h>

#include "decide/slice_scheduling/esg.h"
#include "decide/slice_scheduling/infless.h"
#include "decide/slice_scheduling/testing/random_world.h"

namespace lambent::slice_scheduling::testing {
namespace {

Instant at_ms(int64_t ms) { return Instant(milliseconds(ms)); }

TEST(EsgSearch, TakesTheCheapestThatIsInTime) {
  const std::vector<EsgResource> resources = {{at_ms(0), milliseconds(100), 14},
                                              {at_ms(0), milliseconds(60), 28}};
  const auto relaxed = esg_search({at_ms(150)}, resources, 1, 100);
  ASSERT_EQ(relaxed.size(), 1u);
  EXPECT_EQ(relaxed[0].resource, 0u);
  const auto urgent = esg_search({at_ms(90)}, resources, 1, 100);
  ASSERT_EQ(urgent.size(), 1u);
  EXPECT_EQ(urgent[0].resource, 1u);
  EXPECT_TRUE(esg_search({at_ms(50)}, resources, 1, 100).empty());
}

TEST(EsgSearch, LooksBeyondTheFirstRequest) {
  // The first could have the cheap one; but then the second would be late.
  const std::vector<EsgResource> resources = {{at_ms(0), milliseconds(100), 14},
                                              {at_ms(0), milliseconds(50), 28.5}};
  const auto steps = esg_search({at_ms(110), at_ms(120), at_ms(130)}, resources, 1, 1000);
  ASSERT_EQ(steps.size(), 3u);
  std::vector<size_t> uses(2);
  for (const EsgStep& step : steps) ++uses[step.resource];
  EXPECT_EQ(uses[0], 1u);
  EXPECT_EQ(uses[1], 2u);
}

TEST(EsgSearch, FindsNothingInTooFewStates) {
  const std::vector<EsgResource> resources = {{at_ms(0), milliseconds(10), 14}};
  EXPECT_TRUE(esg_search({at_ms(1000), at_ms(1000)}, resources, 1, 1).empty());
}

std::unique_ptr<SlicePolicy> esg() {
  return std::make_unique<EsgPolicy>(simple_placer(), EsgOptions{});
}
std::unique_ptr<SlicePolicy> infless() {
  return std::make_unique<InflessPolicy>(simple_placer(), InflessOptions{});
}

TEST(RandomWorlds, EsgKeepsEveryPromise) { expect_survives_random_worlds(esg, 1, 500); }

TEST(RandomWorlds, InflessKeepsEveryPromise) { expect_survives_random_worlds(infless, 1, 500); }

}  // namespace
}  // namespace lambent::slice_scheduling::testing
