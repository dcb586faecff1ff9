// The baselines that give a whole function one slice: what they decide, and random worlds.
#include <gtest/gtest.h>

#include "decide/slice_scheduling/esg.h"
#include "decide/slice_scheduling/infless.h"
#include "decide/slice_scheduling/testing/random_world.h"

namespace lambent::slice_scheduling::testing {
namespace {

Instant at_ms(int64_t ms) { return Instant(milliseconds(ms)); }

TEST(EsgSearch, TakesTheCheapestThatIsInTime) {
  const std::vector<EsgResource> resources = {{at_ms(0), {{1, milliseconds(100)}}, 14},
                                              {at_ms(0), {{1, milliseconds(60)}}, 28}};
  const auto relaxed = esg_search({at_ms(150)}, resources, 100);
  ASSERT_EQ(relaxed.size(), 1u);
  EXPECT_EQ(relaxed[0].resource, 0u);
  const auto urgent = esg_search({at_ms(90)}, resources, 100);
  ASSERT_EQ(urgent.size(), 1u);
  EXPECT_EQ(urgent[0].resource, 1u);
  EXPECT_TRUE(esg_search({at_ms(50)}, resources, 100).empty());
}

TEST(EsgSearch, LooksBeyondTheFirstRequest) {
  // The first could have the cheap one; but then the second would be late.
  const std::vector<EsgResource> resources = {{at_ms(0), {{1, milliseconds(100)}}, 14},
                                              {at_ms(0), {{1, milliseconds(50)}}, 28.5}};
  const auto steps = esg_search({at_ms(110), at_ms(120), at_ms(130)}, resources, 1000);
  ASSERT_EQ(steps.size(), 3u);
  std::vector<size_t> uses(2);
  for (const EsgStep& step : steps) ++uses[step.resource];
  EXPECT_EQ(uses[0], 1u);
  EXPECT_EQ(uses[1], 2u);
}

TEST(EsgSearch, ABatchTakesWhatWasMeasuredOfIt) {
  const std::vector<EsgResource> resources = {
      {at_ms(0), {{1, milliseconds(100)}, {2, milliseconds(110)}, {4, milliseconds(130)}}, 14}};
  const auto four = esg_search(std::vector(4, at_ms(140)), resources, 100);
  ASSERT_EQ(four.size(), 1u);
  EXPECT_EQ(four[0].requests, 4u);
  // The first has no time for four together; by itself it is in time, and so are the others then.
  const auto urgent = esg_search({at_ms(105), at_ms(400), at_ms(400)}, resources, 100);
  ASSERT_EQ(urgent.size(), 2u);
  EXPECT_EQ(urgent[0].requests, 1u);
  EXPECT_EQ(urgent[1].requests, 2u);
}

TEST(EsgSearch, TheLargeSliceIsCheapestWhereItAloneHasTimeForABatch) {
  const std::vector<EsgResource> resources = {
      {at_ms(0), {{1, milliseconds(100)}, {4, milliseconds(300)}}, 14},
      {at_ms(0), {{1, milliseconds(60)}, {4, milliseconds(90)}}, 28}};
  const auto steps = esg_search(std::vector(4, at_ms(150)), resources, 1000);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].resource, 1u);
  EXPECT_EQ(steps[0].requests, 4u);
}

TEST(EsgSearch, FindsNothingInTooFewStates) {
  const std::vector<EsgResource> resources = {{at_ms(0), {{1, milliseconds(10)}}, 14}};
  EXPECT_TRUE(esg_search({at_ms(1000), at_ms(1000)}, resources, 1).empty());
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
