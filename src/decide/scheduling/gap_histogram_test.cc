#include "decide/scheduling/gap_histogram.h"

#include <gtest/gtest.h>

#include <string>

namespace lambent::scheduling {
namespace {

GapHistogram of(double gap_s, int count) {
  GapHistogram gaps;
  for (int i = 0; i < count; ++i) gaps.learn(from_seconds(gap_s));
  return gaps;
}

TEST(GapHistogram, SaysWhereItsGapsEndWithAnEighthOfAnOctave) {
  for (const double gap_s : {1.0, 1.4, 7.9, 60.0, 300.0, 3600.0, 16'000.0}) {
    const GapHistogram gaps = of(gap_s, 4);
    const auto before = gaps.ends(from_seconds(gap_s * 0.5), from_seconds(gap_s * 0.37));
    EXPECT_DOUBLE_EQ(before.longer, 4) << gap_s;
    EXPECT_DOUBLE_EQ(before.within, 0) << gap_s;
    const auto around = gaps.ends(from_seconds(gap_s * 0.87), from_seconds(gap_s * 0.27));
    EXPECT_DOUBLE_EQ(around.within, 4) << gap_s;
    EXPECT_DOUBLE_EQ(gaps.ends(from_seconds(gap_s * 1.15), seconds(1)).longer, 0) << gap_s;
  }
}

TEST(GapHistogram, TakesGapsToLieEvenlyInTheirBin) {
  const GapHistogram gaps = of(100, 8);  // 96 to 104 s
  EXPECT_NEAR(gaps.ends(seconds(90), seconds(8)).within, 2, 1e-9);
  EXPECT_NEAR(gaps.ends(seconds(100), seconds(60)).longer, 4, 1e-9);
  EXPECT_NEAR(gaps.ends(seconds(100), seconds(2)).within, 2, 1e-9);
}

TEST(GapHistogram, CountsWhatIsShorterOrLongerThanItKnows) {
  GapHistogram gaps = of(0.1, 3);
  EXPECT_FALSE(gaps.out_of_bounds());
  EXPECT_DOUBLE_EQ(gaps.ends(seconds(1), seconds(5)).longer, 0);
  for (int i = 0; i < 4; ++i) gaps.learn(std::chrono::hours(30));
  EXPECT_TRUE(gaps.out_of_bounds());
  EXPECT_DOUBLE_EQ(gaps.ends(std::chrono::hours(1), std::chrono::hours(1)).longer, 4);
  EXPECT_DOUBLE_EQ(gaps.ends(std::chrono::hours(9), std::chrono::hours(90)).within, 0);
}

TEST(GapHistogram, ForgetsHalfOfWhatItKnowsWhereACountIsFull) {
  GapHistogram gaps = of(10, 100);
  for (int i = 0; i < 256; ++i) gaps.learn(seconds(30));
  EXPECT_EQ(gaps.samples(), 50u + 127 + 1);
  EXPECT_DOUBLE_EQ(gaps.ends(seconds(8), seconds(4)).within, 50);
  // What counts what it does not tell apart is full later.
  GapHistogram shorter;
  for (int i = 0; i < 0x10000; ++i) shorter.learn(milliseconds(1));
  EXPECT_EQ(shorter.samples(), 0x7fffu + 1);
}

TEST(GapHistogram, FindsTheFirstSilenceAfterWhichACallIsLikely) {
  GapHistogram gaps = of(100, 9);
  gaps.learn(seconds(10));
  const auto ahead = [](Duration) { return seconds(25); };
  const auto likely = [&](double share) {
    return [&gaps, share](Duration silence) {
      const auto ends = gaps.ends(silence, seconds(25));
      return ends.within >= share * ends.longer;
    };
  };
  EXPECT_EQ(gaps.first_likely(seconds(0), ahead, likely(0.05)), seconds(0));
  EXPECT_EQ(gaps.first_likely(seconds(0), ahead, likely(0.5)), seconds(104 - 25));
  EXPECT_EQ(gaps.first_likely(seconds(90), ahead, likely(0.5)), seconds(90));
  EXPECT_EQ(gaps.first_likely(seconds(0), ahead, likely(1.1)), Duration::max());
}

TEST(GapHistogram, IsTheSameWhereItIsRestored) {
  GapHistogram gaps = of(0.1, 3), restored;
  gaps.learn(seconds(77));
  gaps.learn(std::chrono::hours(9));
  std::string bytes;
  StateArchive to(&bytes);
  gaps.archive(to);
  StateArchive from(std::string_view{bytes});
  restored.archive(from);
  EXPECT_TRUE(from.complete());
  EXPECT_EQ(restored.samples(), 5u);
  EXPECT_DOUBLE_EQ(restored.ends(seconds(60), seconds(60)).longer, 2);
}

}  // namespace
}  // namespace lambent::scheduling
