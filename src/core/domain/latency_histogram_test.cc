#include "core/domain/latency_histogram.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

TEST(LatencyHistogram, HasNothingToSayOfNoLatency) {
  EXPECT_EQ(LatencyHistogram().count(), 0u);
  EXPECT_EQ(LatencyHistogram().percentile(0.5), Duration(0));
}

TEST(LatencyHistogram, TellsPercentilesWithinATenth) {
  for (const double milliseconds : {0.07, 0.9, 3.0, 47.0, 312.0, 1'900.0, 61'000.0}) {
    LatencyHistogram histogram;
    histogram.add(from_seconds(milliseconds / 1e3));
    const double told = to_milliseconds(histogram.percentile(0.99));
    EXPECT_NEAR(told / milliseconds, 1, 0.1) << milliseconds;
  }
}

TEST(LatencyHistogram, FindsTheOneOfAHundredThatIsSlow) {
  LatencyHistogram histogram;
  for (int i = 0; i < 98; ++i) histogram.add(milliseconds(10));
  for (int i = 0; i < 2; ++i) histogram.add(seconds(5));
  EXPECT_NEAR(to_milliseconds(histogram.percentile(0.5)), 10, 1);
  EXPECT_NEAR(to_milliseconds(histogram.percentile(0.98)), 10, 1);
  EXPECT_NEAR(to_milliseconds(histogram.percentile(0.99)), 5'000, 500);
  EXPECT_EQ(histogram.count(), 100u);
}

TEST(LatencyHistogram, CountsABoundBelowItAndWhatIsTooLongInTheLastBucket) {
  for (const size_t bucket : {0, 1, 4, 40, 96}) {
    LatencyHistogram histogram;
    histogram.add(LatencyHistogram::upper_bound(bucket));
    EXPECT_EQ(histogram.buckets()[bucket], 1u) << bucket;
  }
  LatencyHistogram histogram;
  histogram.add(Duration(0));
  histogram.add(seconds(100'000));
  EXPECT_EQ(histogram.buckets().front(), 1u);
  EXPECT_EQ(histogram.buckets().back(), 1u);
}

}  // namespace
}  // namespace lambent
