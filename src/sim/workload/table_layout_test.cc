#include "sim/workload/table_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/workload/testing/trace_text.h"

namespace lambent::workload {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ColumnChoice, NamesARoleAColumnAndItsUnit) {
  const auto plain = parse_column_choice("time=timestamp_s");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->role, ColumnRole::kTime);
  EXPECT_EQ(plain->column, "timestamp_s");
  EXPECT_EQ(plain->unit, TimeUnit::kSeconds);
  const auto with_unit = parse_column_choice("end=when it ended:ms");
  ASSERT_TRUE(with_unit.ok());
  EXPECT_EQ(with_unit->column, "when it ended");
  EXPECT_EQ(with_unit->unit, TimeUnit::kMilliseconds);
  // A colon may be a part of the name; a unit behind it is stronger than the name's own.
  EXPECT_EQ(parse_column_choice("function=a:s")->column, "a:s");
  EXPECT_EQ(parse_column_choice("time=at:night")->column, "at:night");
  EXPECT_EQ(parse_column_choice("time=t_s:ms")->unit, TimeUnit::kMilliseconds);
  EXPECT_FALSE(parse_column_choice("time=timestamp")->unit.has_value());
  for (const char* text : {"", "time", "when=t", "time=", "time=:s", "=t"}) {
    EXPECT_FALSE(parse_column_choice(text).ok()) << text;
  }
}

TEST(TokenRates, AreTwoNumbers) {
  EXPECT_EQ(parse_token_rates("8000,33.5")->output_per_s, 33.5);
  for (const char* text :
       {"", "1", "1,", ",1", "0,1", "1,-1", "nan,1", "1,inf", "1,2,3", "1e10,1"}) {
    EXPECT_FALSE(parse_token_rates(text).ok()) << text;
  }
}

TEST(ChosenColumns, SayWhenRowsCameAndOfWhichFunctionTheyAre) {
  auto trace = read("app;user;timestamp_s;note\nb;u;12;x\na;v;10.5;y\nb;v;11;z\n",
                    {.columns = columns({"time=timestamp_s", "function=app"})});
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_EQ(trace->format, "table");
  EXPECT_FALSE(trace->has_run_times);
  ASSERT_EQ(trace->functions.size(), 2u);
  EXPECT_EQ(trace->functions[0].name, "b");
  // In no order, and since the earliest.
  EXPECT_THAT(drain(*trace->arrivals),
              ElementsAre(Arrival{Duration(0), 1}, Arrival{milliseconds(500), 0},
                          Arrival{milliseconds(1500), 0}));
  EXPECT_THAT(trace->assumptions, ElementsAre("times count from the earliest row"));

  auto joined =
      read("app;user;t\nb;u;1\na;v;2\n", {.columns = columns({"time=t:ms", "function=app+user"})});
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  EXPECT_EQ(joined->functions[0].name, "b-u");
}

TEST(ChosenColumns, MakeOneFunctionOfATraceWithoutAny) {
  auto trace = read("when\n2024-05-10 00:00:01\n2024-05-10 00:00:03+00:00\n",
                    {.columns = columns({"time=when"})});
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  ASSERT_EQ(trace->functions.size(), 1u);
  EXPECT_EQ(trace->functions[0].name, "t");
  EXPECT_EQ(times_of(*trace), (std::vector<double>{0, 2}));
  EXPECT_THAT(trace->assumptions.front(), HasSubstr("all are of one, 't'"));
}

TEST(ChosenColumns, GiveRunTimesInFourWays) {
  const char* text = "t,s,e,d,in,out\n10,11,14,2500,2000,50\n20,20,20,0,0,0\n";
  const auto runs = [&](std::initializer_list<std::string_view> texts) {
    auto trace = read(text, {.columns = columns(texts)});
    EXPECT_TRUE(trace.ok()) << trace.error().message;
    std::vector<float> found;
    if (!trace.ok()) return found;
    EXPECT_TRUE(trace->has_run_times);
    while (const auto arrival = trace->arrivals->next()) found.push_back(arrival->execution_s);
    return found;
  };
  // What took no time still is not taken for its function's time.
  EXPECT_EQ(runs({"time=t:s", "duration=d:ms"}), (std::vector<float>{2.5F, 1e-6F}));
  EXPECT_EQ(runs({"time=t:s", "end=e:s"}), (std::vector<float>{4.0F, 1e-6F}));
  EXPECT_EQ(runs({"time=t:s", "start=s:s", "end=e:s"}), (std::vector<float>{3.0F, 1e-6F}));
  EXPECT_EQ(runs({"time=t:s", "input-tokens=in", "output-tokens=out"}),
            (std::vector<float>{1.2F, 1e-6F}));
}

TEST(ChosenColumns, CountBackFromAnEnd) {
  auto trace = read("f,e,d\na,50,10\nb,45,10\n",
                    {.columns = columns({"function=f", "end=e:s", "duration=d:s"})});
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_EQ(times_of(*trace), (std::vector<double>{0, 5}));
}

TEST(ChosenColumns, AreRefusedWhereTheyDoNotFit) {
  const auto wrong = [](std::initializer_list<std::string_view> texts) {
    return wrong_with("t,f,d,in\n1,a,1,1\n", {.columns = columns(texts)});
  };
  EXPECT_THAT(wrong({"time=when:s"}), HasSubstr("no column 'when'; it has t, f, d, in"));
  EXPECT_THAT(wrong({"time=t:s", "function=f+g"}), HasSubstr("no column 'g'"));
  EXPECT_THAT(wrong({"function=f"}), HasSubstr("--column time=COLUMN is missing"));
  EXPECT_THAT(wrong({"time=t:s", "duration=d"}), HasSubstr("duration=d:s"));
  EXPECT_THAT(wrong({"time=t:s", "time=d:s"}), HasSubstr("time= is there twice"));
  EXPECT_THAT(wrong({"time=t:s", "duration=d:s", "end=d:s"}), HasSubstr("leave one out"));
  EXPECT_THAT(wrong({"time=t:s", "duration=d:s", "input-tokens=in"}), HasSubstr("leave one out"));
  EXPECT_THAT(wrong({"time=t:s", "start=t:s"}), HasSubstr("changes nothing"));
  EXPECT_THAT(wrong({"time=t"}), HasSubstr("t is '1', a number without a unit"));
}

TEST(ChosenColumns, RefuseHostileNumbersWithTheirLine) {
  const TraceOptions options{.columns = columns({"time=t:s", "duration=d:s", "function=f"})};
  const std::string wrong = wrong_with(
      "t,f,d\n1,a,1\nnan,a,1\n-1,a,1\n1e300,a,1\n1,a,inf\n1,a,-1\n1,,1\n1,a,1e10\n9e9,a,1\n",
      options);
  EXPECT_THAT(wrong, HasSubstr("8 bad rows: line 3: t is 'nan', not a time in seconds; line 4"));
  EXPECT_THAT(wrong, HasSubstr("line 6: d is 'inf', not a time in seconds"));
  EXPECT_THAT(wrong_with("t,f,d\n1,a,1\n9e9,a,1\n", options),
              HasSubstr("line 3: comes more than 1e9 seconds before or after the first row"));
  EXPECT_THAT(wrong_with("t,e\n2,1\n", {.columns = columns({"time=t:s", "end=e:s"})}),
              HasSubstr("line 2: it ends before it begins"));
  EXPECT_THAT(wrong_with("t,n\n2,-1\n", {.columns = columns({"time=t:s", "output-tokens=n"})}),
              HasSubstr("line 2: n is '-1', not a number of tokens"));
}

TEST(ChosenColumns, GiveTheSameWhetherTheTraceIsReadTwiceOrHeld) {
  for (const bool in_order : {true, false}) {
    std::string text = "f\tt\td\n";
    for (int i = 0; i < 2000; ++i) {
      // Often several at one instant.
      const int at = in_order ? i / 5 : i * 7919 % 400;
      text += "f" + std::to_string(i * 31 % 7) + "\t" + std::to_string(1000 + at) + "\t" +
              std::to_string(i % 13) + "\n";
      if (i % 100 == 50) text += "f\tsoon\t1\n";
    }
    const TraceOptions options{.start = seconds(100),
                               .length = seconds(200),
                               .rate_scale = 2,
                               .busiest = 4,
                               .skip_bad_rows = true,
                               .columns = columns({"time=t:s", "duration=d:s", "function=f"})};
    auto streamed = read_trace(lines_of(text), nullptr, "t.csv", options);
    auto held = read_trace(std::make_unique<OnceOnly>(text), nullptr, "t.csv", options);
    ASSERT_TRUE(streamed.ok() && held.ok());
    EXPECT_EQ(streamed->skipped_rows, 20u);
    EXPECT_EQ(streamed->length, held->length);
    EXPECT_EQ(streamed->assumptions, held->assumptions);
    ASSERT_EQ(streamed->functions.size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(streamed->functions[i].name, held->functions[i].name);
      EXPECT_EQ(streamed->functions[i].recorded_s, held->functions[i].recorded_s);
    }
    const auto arrivals = drain(*streamed->arrivals);
    EXPECT_GT(arrivals.size(), 500u);
    EXPECT_EQ(arrivals, drain(*held->arrivals));
    EXPECT_FALSE(streamed->arrivals->failure().has_value());
  }
}

TEST(ChosenColumns, NameTheColumnsOfAFileWithoutAHeader) {
  auto trace = read("job1,5,9\njob2,6,9\n", {.columns = columns({"time=from:s", "end=to:s"}),
                                             .header = {"job", "from", "to"}});
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_EQ(times_of(*trace), (std::vector<double>{0, 1}));
}

TEST(ExactTrace, MayCountInSeconds) {
  auto trace = read("t_s,function\n0.5,a\n2,b\n");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_EQ(trace->format, "exact");
  EXPECT_EQ(times_of(*trace), (std::vector<double>{0.5, 2}));
  EXPECT_THAT(trace->assumptions, testing::IsEmpty());
  EXPECT_THAT(wrong_with("t_s,function\n2,a\n1,a\n"), HasSubstr("t_s goes back to '1'"));
  EXPECT_THAT(wrong_with("t_s,function\n1700000000,a\n"), HasSubstr("begin, in seconds"));
  EXPECT_THAT(wrong_with("t_ms,function\n2,a\n"), Not(HasSubstr("bad")));
}

}  // namespace
}  // namespace lambent::workload
