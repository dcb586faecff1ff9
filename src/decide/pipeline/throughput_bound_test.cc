#include "decide/pipeline/throughput_bound.h"

#include <cmath>
#include <limits>

#include "decide/pipeline/linear_program.h"
#include "decide/pipeline/placing.h"
#include "decide/pipeline/testing/testing.h"

namespace lambent::pipeline {
namespace {

double bound(std::vector<MixedFunction> mix, const std::vector<SliceShape>& shapes,
             BoundKind kind = BoundKind::kCut) {
  const auto found = throughput_bound(mix, slices_of(shapes), kind);
  EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().message);
  return found.ok() ? *found : -1;
}

TEST(LinearProgram, FindsTheBestCorner) {
  // 3x + 5y; x <= 4, 2y <= 12, 3x + 2y <= 18: x = 2, y = 6.
  const auto solution =
      maximise({.gains = {3, 5}, .rows = {{{1, 0}, 4}, {{0, 2}, 12}, {{3, 2}, 18}}});
  ASSERT_TRUE(solution);
  EXPECT_NEAR(solution->gain, 36, 1e-9);
  EXPECT_NEAR(solution->amounts[0], 2, 1e-9);
  EXPECT_NEAR(solution->amounts[1], 6, 1e-9);
}

TEST(LinearProgram, EndsWhereARuleOfTheLargestGainGoesInACircle) {
  // Beale's example.
  const auto solution = maximise(
      {.gains = {0.75, -150, 0.02, -6},
       .rows = {{{0.25, -60, -0.04, 9}, 0}, {{0.5, -90, -0.02, 3}, 0}, {{0, 0, 1, 0}, 1}}});
  ASSERT_TRUE(solution);
  EXPECT_NEAR(solution->gain, 0.05, 1e-9);
}

TEST(LinearProgram, SaysThatThereIsNoEnd) {
  EXPECT_FALSE(maximise({.gains = {1, 1}, .rows = {{{1, -1}, 1}}}));
  EXPECT_EQ(maximise({.gains = {}, .rows = {}})->gain, 0);
}

TEST(ThroughputBound, OfOneFunctionOnOneSliceIsItsTime) {
  const auto function = function_of(chain_of(2), {10, 30});
  EXPECT_NEAR(bound({{&function}}, {k1g}), 25, 1e-6);
  EXPECT_NEAR(bound({{&function}}, {k1g}, BoundKind::kWhole), 25, 1e-6);
  EXPECT_NEAR(bound({{&function}}, {k1g, k4g}), 25 + 100, 1e-6);
}

TEST(ThroughputBound, CutFunctionsUseSlicesThatHoldNoWholeOne) {
  const auto function = function_of(chain_of(2), {10, 30}, {9, 9});
  // Whole it runs only on the 2g.20gb.
  EXPECT_NEAR(bound({{&function}}, {k1g, k2g}, BoundKind::kWhole), 50, 1e-6);
  EXPECT_NEAR(bound({{&function}}, {k1g, k2g}), 75, 1e-6);
  EXPECT_NEAR(bound({{&function}}, {k1g, k1g}), 50, 1e-6);
  EXPECT_EQ(bound({{&function}}, {k1g, k1g}, BoundKind::kWhole), 0);
  EXPECT_EQ(bound({{&function}}, {}), 0);
}

TEST(ThroughputBound, AComponentThatFitsFewSlicesHoldsTheOthersUp) {
  // The second runs only on the 2g.20gb: 15 ms there, so not more than 66.7 a second.
  const auto function = function_of(chain_of(2), {1, 30}, {9, 15});
  EXPECT_NEAR(bound({{&function}}, {k1g, k1g, k1g, k2g}), 1 / 0.015, 1e-6);
}

TEST(ThroughputBound, AMixKeepsItsShares) {
  const auto quick = function_of(chain_of(1), {10}), slow = function_of(chain_of(1), {40});
  // Three quick ones for each slow one: 70 ms for four.
  EXPECT_NEAR(bound({{&quick, 3}, {&slow, 1}}, {k1g}), 4 / 0.07, 1e-6);
  EXPECT_NEAR(bound({{&quick, 3}, {&slow, 0}}, {k1g}), 100, 1e-6);
  // The slow one fits only the large slice, which the quick ones leave to it as it needs it.
  auto large = function_of(chain_of(1), {40}, {30});
  EXPECT_NEAR(bound({{&quick, 1}, {&large, 1}}, {k1g, k4g}, BoundKind::kWhole), 200, 1e-6);
}

TEST(ThroughputBound, NoPlacementGetsAboveIt) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const size_t count = 1 + random() % 6;
    std::vector<double> ms;
    std::vector<uint64_t> memory;
    for (size_t i = 0; i < count; ++i) {
      ms.push_back(static_cast<double>(1 + random() % 50));
      memory.push_back(1 + random() % 12);
    }
    auto function = function_of(random_dag(count, 0.4, random), ms, memory);
    std::vector<SliceShape> shapes;
    for (size_t i = 0; i < 1 + random() % 5; ++i) {
      shapes.push_back(function.shapes[random() % function.shapes.size()]);
    }
    const auto partitions = rank_partitions(function, {});
    if (!partitions.ok()) continue;
    const auto slices = slices_of(shapes);
    const double most = bound({{&function}}, shapes);
    for (const Partition& each : *partitions) {
      const auto placement = place(function, each, slices, {});
      if (!placement) continue;
      EXPECT_LE(1 / to_seconds(placement->bottleneck), most * (1 + 1e-9));
    }
  }
}

TEST(ThroughputBound, WhatWasNotMeasuredHasNone) {
  const PipelineFunction unknown{.dag = chain_of(2)};
  const std::vector<MixedFunction> mix{{&unknown}};
  EXPECT_EQ(throughput_bound(mix, slices_of({k1g}), BoundKind::kCut).error().code,
            ErrorCode::kFailedPrecondition);
  auto function = function_of(chain_of(3), {1, 1, 1});
  function.profile.components[1].time_by_shape.clear();
  EXPECT_EQ(
      throughput_bound(std::vector<MixedFunction>{{&function}}, slices_of({k1g}), BoundKind::kCut)
          .error()
          .message,
      "not all components of the functions were measured: there are no times of 'c1'");
  for (const double share : {-1.0, 0.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const std::vector<MixedFunction> wrong{{&unknown, share}};
    EXPECT_EQ(throughput_bound(wrong, slices_of({k1g}), BoundKind::kCut).error().code,
              ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lambent::pipeline
