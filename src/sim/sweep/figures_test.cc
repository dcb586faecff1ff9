#include "sim/sweep/figures.h"

#include <gtest/gtest.h>

namespace lambent::sweep {
namespace {

CellResult result(std::vector<std::string> values, uint64_t seed, double mean_s) {
  CellResult one{{std::move(values), seed}, {}};
  one.figures.assign(metrics().size(), std::nullopt);
  one.figures[*metric_index("mean_s")] = mean_s;
  return one;
}

TEST(FiguresOf, ARunWithoutASuccessHasNoLatency) {
  workload::Summary summary{.failed = 7};
  const auto none = figures_of(summary, 0.25);
  EXPECT_EQ(none[*metric_index("mean_s")], std::nullopt);
  EXPECT_EQ(none[*metric_index("cold_ratio")], std::nullopt);
  EXPECT_EQ(none[*metric_index("failed")], 7);
  EXPECT_EQ(none[*metric_index("invocations")], 0);
  EXPECT_EQ(none[*metric_index("utilisation")], 0.25);
  summary.count = 2;
  summary.mean_s = 1.5;
  summary.p99_s = 3;
  const auto some = figures_of(summary, std::nullopt);
  EXPECT_EQ(some[*metric_index("mean_s")], 1.5);
  EXPECT_EQ(some[*metric_index("p99_s")], 3);
  EXPECT_EQ(some[*metric_index("normalised_latency")], std::nullopt);
  EXPECT_EQ(some[*metric_index("utilisation")], std::nullopt);
}

TEST(EstimateOf, IntervalIsStudents) {
  // Five samples, mean 10, standard deviation sqrt(2.5): 2.776 x sqrt(2.5 / 5).
  const Estimate estimate = estimate_of({8, 9, 10, 11, 12});
  EXPECT_EQ(estimate.count, 5u);
  EXPECT_DOUBLE_EQ(estimate.mean, 10);
  ASSERT_TRUE(estimate.half_width);
  EXPECT_NEAR(*estimate.half_width, 2.776 * 0.70711, 1e-3);
}

TEST(EstimateOf, OfManySamplesIsNearTheNormal) {
  std::vector<double> samples;
  for (int i = 0; i < 200; ++i) samples.push_back(i % 2 == 0 ? 1 : -1);
  const Estimate estimate = estimate_of(samples);
  ASSERT_TRUE(estimate.half_width);
  // t of 199 degrees of freedom is 1.972; the deviation sqrt(200 / 199).
  EXPECT_NEAR(*estimate.half_width, 1.972 * 1.002509 / 14.142136, 1e-4);
}

TEST(EstimateOf, OneSampleHasNoInterval) {
  EXPECT_FALSE(estimate_of({3}).half_width);
  EXPECT_EQ(estimate_of({}).count, 0u);
}

TEST(PointsOf, GathersSeedsInTheOrderOfTheGrid) {
  const Grid grid{{{"D", {"1", "2", "3"}}}, 1, 2};
  const auto points =
      points_of(grid, {result({"3"}, 2, 8), result({"1"}, 1, 5), result({"3"}, 1, 4)});
  ASSERT_EQ(points.size(), 2u);
  const size_t mean = *metric_index("mean_s");
  EXPECT_EQ(points[0].values.front(), "1");
  EXPECT_EQ(points[0].estimates[mean].count, 1u);
  EXPECT_EQ(points[1].values.front(), "3");
  EXPECT_DOUBLE_EQ(points[1].estimates[mean].mean, 6);
  EXPECT_EQ(points[1].estimates[*metric_index("p99_s")].count, 0u);
}

}  // namespace
}  // namespace lambent::sweep
