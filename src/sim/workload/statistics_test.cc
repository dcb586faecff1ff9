#include "sim/workload/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/random.h"
#include "sim/workload/spreading.h"

namespace lambent::workload {
namespace {

TEST(Quantiles, AreNearestRankWhileTheNumbersAreFew) {
  Quantiles quantiles;
  EXPECT_EQ(quantiles.at(0.5), 0);
  for (const double value : {5, 1, 4, 2, 3}) quantiles.add(value);
  EXPECT_EQ(quantiles.at(0), 1);
  EXPECT_EQ(quantiles.at(0.5), 3);
  EXPECT_EQ(quantiles.at(0.6), 3);
  EXPECT_EQ(quantiles.at(0.61), 4);
  EXPECT_EQ(quantiles.at(0.99), 5);
  quantiles.add(0);
  EXPECT_EQ(quantiles.at(0), 0);
}

TEST(Quantiles, StayWithinAThousandthWhenTheNumbersAreMany) {
  SeededRandom random(11);
  Quantiles quantiles;
  std::vector<double> all;
  for (size_t i = 0; i < 3 * Quantiles::kExact; ++i) {
    all.push_back(i % 100 == 0 ? 0 : exponential(0.3, random));
    quantiles.add(all.back());
  }
  std::sort(all.begin(), all.end());
  for (const double share : {0.02, 0.5, 0.9, 0.99, 0.9999, 1.0}) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(all.size())));
    EXPECT_NEAR(quantiles.at(share), all[rank - 1], 0.0011 * all[rank - 1]) << share;
  }
  EXPECT_EQ(quantiles.at(0), 0);
}

TEST(Quantiles, KeepAsManyNumbersAsTheyAreToldTo) {
  Quantiles few(2);
  for (const double value : {7.0, 5.0, 3.0}) few.add(value);
  EXPECT_NEAR(few.at(0.6), 5, 0.0051);
  EXPECT_NE(few.at(0.6), 5) << "the third number should have put all into buckets";
  EXPECT_EQ(few.at(1), 7);
}

TEST(RunStatistics, MatchValuesWorkedOutByHand) {
  RunStatistics statistics({"a", "b", "idle"}, {1.0, 2.0, 5.0});
  statistics.add({.function = 0, .latency_s = 1, .run_s = 1, .start = StartClass::kWarm});
  statistics.add({.function = 0,
                  .latency_s = 5,
                  .queue_s = 1,
                  .cold_s = 3,
                  .run_s = 1,
                  .start = StartClass::kCold});
  statistics.add({.function = 1,
                  .latency_s = 6,
                  .queue_s = 3,
                  .run_s = 2,
                  .memory_s = 1,
                  .start = StartClass::kGpuCold});
  statistics.add({.function = 1, .latency_s = 8, .queue_s = 6, .run_s = 2});
  statistics.add({.function = 1, .latency_s = 99, .succeeded = false});
  const Summary summary = statistics.summary(10, 1);
  EXPECT_EQ(summary.count, 4u);
  EXPECT_EQ(summary.failed, 1u);
  EXPECT_DOUBLE_EQ(summary.mean_s, 5);
  EXPECT_DOUBLE_EQ(summary.p50_s, 5);
  EXPECT_DOUBLE_EQ(summary.p99_s, 8);
  EXPECT_DOUBLE_EQ(summary.max_s, 8);
  // Means of the functions: 3 and 7; the one without invocations does not count.
  EXPECT_DOUBLE_EQ(summary.variance_between_functions, 4);
  // Of the one 1 s and 5 s, of the other 6 s and 8 s.
  EXPECT_DOUBLE_EQ(summary.variance_within_functions, (4 + 1) / 2.0);
  EXPECT_DOUBLE_EQ(summary.functions[1].variance, 1);
  EXPECT_DOUBLE_EQ(summary.cold_ratio, 0.25);
  EXPECT_DOUBLE_EQ(summary.gpu_cold_ratio, 0.25);
  EXPECT_DOUBLE_EQ(summary.queue_mean_s, 2.5);
  EXPECT_DOUBLE_EQ(summary.memory_mean_s, 0.25);
  // (1/1 + 5/1 + 6/2 + 8/2) / 4
  EXPECT_DOUBLE_EQ(summary.normalised_latency.value(), 3.25);
  EXPECT_DOUBLE_EQ(summary.busy_ratio.value(), 0.6);
  ASSERT_EQ(summary.functions.size(), 3u);
  EXPECT_DOUBLE_EQ(summary.functions[0].cold_ratio, 0.5);
  EXPECT_DOUBLE_EQ(summary.functions[0].cold_mean_s, 1.5);
  EXPECT_EQ(summary.functions[1].failed, 1u);
  EXPECT_DOUBLE_EQ(summary.functions[1].p50_s, 6);
  EXPECT_EQ(summary.functions[2].count, 0u);
  EXPECT_FALSE(summary.slo_hit_ratio);
}

TEST(Statistics, SharesOfKeptSlosAreOfThoseThatHaveOne) {
  RunStatistics statistics({"a", "b"}, {});
  statistics.add({.function = 0, .latency_s = 1, .in_time = true});
  statistics.add({.function = 0, .latency_s = 2, .in_time = false});
  statistics.add({.function = 0, .latency_s = 2, .succeeded = false, .in_time = false});
  statistics.add({.function = 1, .latency_s = 9});
  const Summary summary = statistics.summary(10, 1);
  EXPECT_DOUBLE_EQ(summary.slo_hit_ratio.value(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(summary.functions[0].slo_hit_ratio.value(), 1.0 / 3);
  EXPECT_FALSE(summary.functions[1].slo_hit_ratio);
}

TEST(RunStatistics, SayNothingAboutWhatTheyDoNotKnow) {
  RunStatistics statistics({"a", "b"}, {1.0});
  statistics.add({.function = 0, .latency_s = 1});
  EXPECT_TRUE(statistics.summary(0, 1).normalised_latency.has_value());
  statistics.add({.function = 1, .latency_s = 1});
  const Summary summary = statistics.summary(0, 1);
  EXPECT_FALSE(summary.normalised_latency.has_value());
  EXPECT_FALSE(summary.busy_ratio.has_value());
  EXPECT_EQ(RunStatistics({}, {}).summary(1, 1).count, 0u);
}

}  // namespace
}  // namespace lambent::workload
