#include "sim/slice_simulator/layout_advice.h"

#include <gtest/gtest.h>

#include "decide/slice_scheduling/testing/testing.h"

namespace lambent::slice_simulator {
namespace {

using slice_scheduling::testing::function_of;
using slice_scheduling::testing::shape_of;

GpuLayout layout_of(std::initializer_list<unsigned> computes) {
  GpuLayout layout;
  for (const unsigned compute : computes) layout.push_back(shape_of(compute));
  return layout;
}

std::vector<Arrival> every(Duration gap, Instant from, Instant to, uint32_t function) {
  std::vector<Arrival> arrivals;
  for (Instant at = from; at < to; at += gap) arrivals.push_back({at, FunctionId(function)});
  return arrivals;
}

Instant at_s(int64_t s) { return Instant(seconds(s)); }

AdviceOptions options_for(std::vector<Arrival> arrivals) {
  AdviceOptions options;
  options.layouts = {layout_of({7}), layout_of({4, 3}), layout_of({1, 1, 1, 1, 1, 1, 1})};
  // 15 GB: too large for a 1g slice in one piece, 40 ms on a 4g one.
  options.functions = {function_of(1, {{80, 7'000}, {80, 7'000}}, milliseconds(150))};
  options.arrivals = std::move(arrivals);
  return options;
}

TEST(LayoutAdvice, PrefersSlicesThatKeepTheSlo) {
  const auto advice = advise(options_for(every(milliseconds(60), at_s(0), at_s(60), 1)));
  ASSERT_TRUE(advice.ok()) << advice.error().message;
  ASSERT_EQ(advice->whole.layouts.size(), 3u);
  // 7g takes 23 ms and 4g 40; in pieces over 1g slices it is 160, and late.
  EXPECT_NE(advice->whole.layouts.front().gpus.front().size(), 7u);
  EXPECT_GT(advice->whole.layouts.front().hit_share, 0.9);
  EXPECT_LT(advice->whole.layouts.back().hit_share, 0.1);
  EXPECT_EQ(advice->whole.layouts.back().gpus.front().size(), 7u);
  EXPECT_TRUE(advice->idle.empty());
}

TEST(LayoutAdvice, PrefersLateAnswersToRefusals) {
  AdviceOptions options = options_for(every(milliseconds(100), at_s(0), at_s(20), 1));
  // None keeps this promise. On 1g slices each component fits, but six stages are too many.
  options.layouts = {layout_of({1, 1, 1, 1, 1, 1, 1}), layout_of({7})};
  options.functions = {function_of(
      1, std::vector<slice_scheduling::testing::ComponentOf>(6, {20, 7'000}), Duration(1))};
  const auto advice = advise(options);
  ASSERT_TRUE(advice.ok()) << advice.error().message;
  ASSERT_EQ(advice->whole.layouts.size(), 2u);
  EXPECT_EQ(advice->whole.layouts[0].answered_share, 1);
  EXPECT_EQ(advice->whole.layouts[1].answered_share, 0);
  EXPECT_EQ(advice->whole.layouts[0].hit_share, advice->whole.layouts[1].hit_share);
}

TEST(LayoutAdvice, FindsTheTimesInWhichALayoutCouldBeChanged) {
  auto arrivals = every(milliseconds(100), at_s(0), at_s(20), 1);
  for (const Arrival& arrival : every(milliseconds(100), at_s(1000), at_s(1020), 1)) {
    arrivals.push_back(arrival);
  }
  const auto advice = advise(options_for(arrivals));
  ASSERT_TRUE(advice.ok());
  ASSERT_EQ(advice->idle.size(), 1u);
  EXPECT_EQ(advice->idle[0].to, at_s(1000));
  ASSERT_EQ(advice->parts.size(), 2u);
  EXPECT_EQ(advice->parts[1].from, at_s(1000));
  EXPECT_FALSE(advice->parts[1].layouts.empty());
}

TEST(LayoutAdvice, CutsGpusDifferentlyWhereThatIsBetter) {
  AdviceOptions options = options_for({});
  options.gpus = 2;
  options.layouts = {layout_of({7}), layout_of({1, 1, 1, 1, 1, 1, 1})};
  // One that only a whole device holds, and one that small slices serve as well.
  options.functions = {function_of(1, {{700, 60'000}}, seconds(2)),
                       function_of(2, {{100, 1'000}}, seconds(1))};
  for (int64_t second = 0; second < 40; ++second) {
    options.arrivals.push_back({at_s(second), FunctionId(1)});
    for (int i = 0; i < 20; ++i) {
      options.arrivals.push_back({at_s(second) + milliseconds(50 * i), FunctionId(2)});
    }
  }
  const auto advice = advise(options);
  ASSERT_TRUE(advice.ok()) << advice.error().message;
  // A layout of only small slices cannot hold the first.
  for (const JudgedLayout& judged : advice->whole.layouts) {
    EXPECT_GT(judged.most_times, 0);
    EXPECT_NE(judged.name(), "2 x 1g.10gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb");
  }
  const bool any_mixed = std::ranges::any_of(
      advice->whole.layouts, [](const auto& one) { return one.gpus[0] != one.gpus[1]; });
  EXPECT_TRUE(any_mixed);
}

TEST(LayoutAdvice, SaysWhatIsMissing) {
  EXPECT_EQ(advise(options_for({})).error().code, ErrorCode::kInvalidArgument);
  AdviceOptions options = options_for(every(milliseconds(100), at_s(0), at_s(2), 1));
  options.layouts = {layout_of({1, 1})};
  options.functions = {function_of(1, {{80, 60'000}})};
  EXPECT_EQ(advise(options).error().code, ErrorCode::kResourceExhausted);
  options.layouts.clear();
  EXPECT_EQ(advise(options).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lambent::slice_simulator
