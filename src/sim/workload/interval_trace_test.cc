#include "sim/workload/interval_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/workload/testing/trace_text.h"

namespace lambent::workload {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(IntervalTrace, DrawsAsManyArrivalsInEachRowAsItCounts) {
  const char* text =
      "day,time,28,400---418---pool22-300-128\n"
      "3,259200,3.0,\n"
      "3,259260,,NaN\n"
      "3,259320,0,2\n"
      // A minute is missing.
      "3,259440,1,1\n";
  for (const Spreading how : {Spreading::kUniform, Spreading::kEquidistant}) {
    auto trace = read(text, {.spreading = how});
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_EQ(trace->format, "intervals");
    EXPECT_EQ(trace->length, seconds(300));
    ASSERT_EQ(trace->functions.size(), 2u);
    EXPECT_EQ(trace->functions[1].name, "400---418---pool22-300-128");
    std::vector<std::vector<int>> counts(2, std::vector<int>(5));
    Duration last{};
    while (const auto arrival = trace->arrivals->next()) {
      EXPECT_GE(arrival->at, last);
      last = arrival->at;
      ++counts.at(arrival->function).at(static_cast<size_t>(last / seconds(60)));
    }
    EXPECT_FALSE(trace->arrivals->failure().has_value());
    EXPECT_THAT(counts, ElementsAre(ElementsAre(3, 0, 0, 0, 1), ElementsAre(0, 0, 2, 0, 1)));
  }
}

TEST(IntervalTrace, MayCountBySecondsAndSaysHowItSpreads) {
  auto trace = read("day,time,f\n0,0,5\n0,1,5\n", {.seed = 7});
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_THAT(trace->assumptions,
              ElementsAre("the invocations that are counted in 1 s lie in them at instants drawn "
                          "uniformly, by seed 7 (--spread, --seed)"));
  const auto times = times_of(*trace);
  ASSERT_EQ(times.size(), 10u);
  EXPECT_LT(times[4], 1);
  EXPECT_LT(times[9], 2);
  EXPECT_GE(times[5], 1);
  auto again = read("day,time,f\n0,0,5\n0,1,5\n", {.seed = 7});
  auto other = read("day,time,f\n0,0,5\n0,1,5\n", {.seed = 8});
  ASSERT_TRUE(again.ok() && other.ok());
  EXPECT_EQ(times, times_of(*again));
  EXPECT_NE(times, times_of(*other));
}

TEST(IntervalTrace, HasAWindowOfWholeIntervalsAndAChoiceOfFunctions) {
  const char* text = "day,time,a,b\n0,0,9,9\n0,60,2,3\n0,120,9,9\n";
  auto trace =
      read(text, {.start = seconds(60), .length = seconds(60), .rate_scale = 60, .busiest = 1});
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  ASSERT_EQ(trace->functions.size(), 1u);
  EXPECT_EQ(trace->functions[0].name, "b");
  const auto times = times_of(*trace);
  ASSERT_EQ(times.size(), 3u);
  EXPECT_LT(times[2], 1.0);
  EXPECT_FALSE(read(text, {.start = seconds(30)}).ok());
  EXPECT_THAT(wrong_with(text, {.start = seconds(180)}), HasSubstr("the window begins after them"));
}

TEST(IntervalTrace, RefusesHostileRowsWithTheirLine) {
  const std::string wrong = wrong_with(
      "day,time,f,g\n0,0,1,1\n0,60,0.5,1\n0,120,-1,1\n0,180,1,1e9\n0,240,inf,1\n0,240,1,1\n"
      "0,nan,1,1\n0,270,1,1\n");
  EXPECT_THAT(wrong, HasSubstr("7 bad rows: line 3: function 'f' has '0.5', not a number of"));
  EXPECT_THAT(wrong, HasSubstr("line 5: function 'g' has '1e9'"));
  EXPECT_THAT(
      wrong_with("day,time,f\n0,0,1\n0,60,1\n0,60,1\n0,nan,1\n0,90,1\n"),
      HasSubstr("line 4: time goes back to '60'; sort the rows by time; line 5: time is "
                "'nan', not a time in seconds; line 6: time is '90', less than an interval"));
  EXPECT_THAT(wrong_with("day,time,f,f\n0,0,1,1\n"), HasSubstr("two columns are called 'f'"));
  EXPECT_THAT(wrong_with("day,time,f,\n0,0,1,1\n"), HasSubstr("column 4 has no name"));
}

TEST(IntervalTrace, HasABoundOnWhatIsDrawnAtOnce) {
  EXPECT_THAT(wrong_with("day,time,a,b,c\n0,0,10000000,10000000,1\n"),
              HasSubstr("line 2: more than 20000000 invocations in one interval"));
  EXPECT_EQ(read("fid,1\na,10000000\nb,10000000\nc,1\n").error().code,
            ErrorCode::kResourceExhausted);
}

TEST(IntervalTrace, KnowsItsIntervalWhereTheSecondRowIsBad) {
  auto trace = read("day,time,f\n0,0,1\n0,60,x\n0,120,1\n0,180,1\n", {.skip_bad_rows = true});
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_EQ(trace->skipped_rows, 1u);
  EXPECT_EQ(trace->length, seconds(240));
}

TEST(IntervalTrace, GivesTheSameWhetherItIsReadTwiceOrHeld) {
  std::string text = "day,time";
  for (int f = 0; f < 50; ++f) text += ",f" + std::to_string(f);
  text += "\n";
  for (int row = 0; row < 100; ++row) {
    text += "0," + std::to_string(row * 60);
    for (int f = 0; f < 50; ++f) {
      text += "," + (row * f % 7 > 3 ? std::to_string(row * f % 11) : std::string());
    }
    text += "\n";
  }
  const TraceOptions options{.start = seconds(600), .length = seconds(1200), .busiest = 20};
  auto streamed = read_trace(lines_of(text), nullptr, "t.csv", options);
  auto held = read_trace(std::make_unique<OnceOnly>(text), nullptr, "t.csv", options);
  ASSERT_TRUE(streamed.ok() && held.ok());
  const auto arrivals = drain(*streamed->arrivals);
  EXPECT_GT(arrivals.size(), 500u);
  EXPECT_EQ(arrivals, drain(*held->arrivals));
}

TEST(IntervalTrace, FailsWhenItsRowsAreOthersTheSecondTime) {
  const std::string_view first = "day,time,f\n0,0,1\n0,60,1\n";
  for (const std::string_view again :
       {"day,time,f\n0,0,1\n", "day,time,f\n0,0,1\n0,60,2\n", "day,time,f\n0,0,1\n0,60,x\n"}) {
    auto trace = read_trace(std::make_unique<Unsteady>(first, again), nullptr, "t.csv", {});
    ASSERT_TRUE(trace.ok());
    drain(*trace->arrivals);
    ASSERT_TRUE(trace->arrivals->failure().has_value()) << again;
    EXPECT_EQ(trace->arrivals->failure()->code, ErrorCode::kAborted);
  }
}

}  // namespace
}  // namespace lambent::workload
