#include "sim/workload/trace_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <thread>

#include "core/base/fd.h"
#include "sim/workload/csv.h"
#include "sim/workload/testing/trace_text.h"

namespace lambent::workload {
namespace {

using testing::HasSubstr;
using testing::Not;

class TraceFile : public testing::Test {
 protected:
  TraceFile()
      : folder_(std::filesystem::temp_directory_path() /
                ("lambent-trace-test-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TraceFile() override { std::filesystem::remove_all(folder_); }

  std::string write(const char* name, const std::string& text) {
    const std::string path = folder_ / name;
    EXPECT_TRUE(write_file_atomically(path, text, false).ok());
    return path;
  }

  const std::filesystem::path folder_;
};

std::string rows_text(int rows) {
  std::string text = "t_ms,func\n";
  for (int i = 0; i < rows; ++i) {
    text += std::to_string(i) + ",f" + std::to_string(i * 7919 % 97) + "\n";
  }
  return text;
}

TEST(ExactTrace, IsReadInOrderOfTimeWithTheFunctionsBesideIt) {
  auto trace = read("t_ms,func\n10,a\r\n\n2500,b\n2500,a\n", {},
                    "func,trigger,gpu_function\na,timer,FFT\nb,http,Isoneural\nc,http,Lud\n");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_EQ(trace->name, "t");
  EXPECT_EQ(trace->format, "exact");
  ASSERT_EQ(trace->functions.size(), 3u);
  EXPECT_EQ(trace->functions[0].name, "a");
  EXPECT_EQ(trace->functions[0].catalogue_entry, "FFT");
  EXPECT_EQ(trace->functions[2].label, "http");
  const std::vector<Arrival> expected = {
      {milliseconds(10), 0}, {milliseconds(2500), 0}, {milliseconds(2500), 1}};
  EXPECT_EQ(drain(*trace->arrivals), expected);
}

TEST(ExactTrace, TakesOurOwnHeaderAndNeedsNoFunctionsFile) {
  auto trace = read("t_ms,function\n1.5,x\n");
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->functions[0].catalogue_entry, "");
  EXPECT_EQ(times_of(*trace), std::vector<double>{0.0015});
}

TEST(ExactTrace, RefusesAColumnOfWhichNothingWouldBeMade) {
  for (const char* text : {"t_ms,function,execution_ms\n1,f,2\n", "func,x,t_ms\nf,2,1\n",
                           "t_ms,func,func\n1,f,g\n", "t_ms,function,func\n1,f,g\n"}) {
    const auto trace = read(text);
    ASSERT_FALSE(trace.ok()) << text;
    EXPECT_EQ(trace.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(trace.error().message, HasSubstr("t.csv line 1: nothing is known of the column '"));
    EXPECT_THAT(trace.error().message, HasSubstr("leave it out"));
  }
  EXPECT_TRUE(read("func,t_ms\nf,1\n").ok());
}

TEST(ExactTrace, RefusesRowsThatGoBackInTime) {
  const auto trace = read("t_ms,func\n10,a\n5,a\n12,a\n");
  ASSERT_FALSE(trace.ok());
  EXPECT_EQ(trace.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(trace.error().message, HasSubstr("line 3: t_ms goes back to '5'; sort the rows"));
  EXPECT_THAT(trace.error().message, HasSubstr("--skip-bad-rows leaves such rows out"));
  auto kept = read("t_ms,func\n10,a\n5,a\n12,a\n", {.skip_bad_rows = true});
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->skipped_rows, 1u);
  EXPECT_EQ(times_of(*kept), (std::vector<double>{0.01, 0.012}));
}

TEST(ExactTrace, CountsAllBadRowsAndShowsTheFirstFewWithTheirLines) {
  const auto trace = read("t_ms,func\nabc,f\n1,f\n2\n-3,f\n4,\nnan,f\n1e300,f\n5,f\n");
  ASSERT_FALSE(trace.ok());
  EXPECT_EQ(trace.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(trace.error().message, HasSubstr("folder/t.csv has 6 bad rows"));
  EXPECT_THAT(trace.error().message, HasSubstr("line 2: t_ms is 'abc'"));
  EXPECT_THAT(trace.error().message, HasSubstr("line 4: 1 fields where the header has 2"));
  EXPECT_THAT(trace.error().message, HasSubstr("line 5: t_ms is '-3'"));
  EXPECT_THAT(trace.error().message, HasSubstr("line 6: the function has no name"));
  EXPECT_THAT(trace.error().message, HasSubstr("and 1 more"));
  EXPECT_THAT(trace.error().message, Not(HasSubstr("line 8")));
}

TEST(ExactTrace, PassesOverBadRowsWhenToldTo) {
  auto trace = read("t_ms,func\nabc,f\n1000,f\n", {.skip_bad_rows = true});
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->skipped_rows, 1u);
  EXPECT_EQ(times_of(*trace), std::vector<double>{1.0});
}

TEST(ExactTrace, HasAWindowAChoiceOfFunctionsAndARate) {
  const char* text = "t_ms,func\n0,a\n10000,a\n11000,b\n12000,b\n13000,c\n20000,a\n";
  auto window = read(text, {.start = seconds(10), .length = seconds(10), .rate_scale = 2});
  ASSERT_TRUE(window.ok());
  EXPECT_EQ(times_of(*window), (std::vector<double>{0, 0.5, 1, 1.5}));

  auto only = read(text, {.only = {"c"}});
  ASSERT_TRUE(only.ok());
  ASSERT_EQ(only->functions.size(), 1u);
  EXPECT_EQ(times_of(*only), std::vector<double>{13.0});

  auto busiest = read(text, {.busiest = 2});
  ASSERT_TRUE(busiest.ok());
  ASSERT_EQ(busiest->functions.size(), 2u);
  EXPECT_EQ(busiest->functions[1].name, "b");

  const auto unknown = read(text, {.only = {"nope"}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
}

TEST(ExactTrace, GivesTheSameWhetherItIsReadTwiceOrHeld) {
  std::string text = "t_ms,func\n";
  for (int i = 0; i < 3000; ++i) {
    // Often some at one instant, in no order of their functions, the same function again as well.
    text += std::to_string(i / 7 * 13) + ",f" + std::to_string(i * 31 % 11 % 5) + "\n";
    if (i % 100 == 0) text += "never,f1\n";
  }
  const TraceOptions whole{.skip_bad_rows = true};
  TraceOptions part = whole;
  part.start = milliseconds(500);
  part.length = milliseconds(3001);
  part.rate_scale = 3;
  part.busiest = 3;
  TraceOptions crowded = whole;
  crowded.rate_scale = 1e9;
  TraceOptions chosen = whole;
  chosen.only = {"f4", "f1"};
  TraceOptions none = whole;
  none.start = seconds(1000);
  for (const TraceOptions& options : {whole, part, crowded, chosen, none}) {
    auto streamed = read_trace(lines_of(text), nullptr, "t.csv", options);
    auto held = read_trace(std::make_unique<OnceOnly>(text), nullptr, "t.csv", options);
    ASSERT_TRUE(streamed.ok() && held.ok());
    EXPECT_EQ(streamed->length, held->length);
    EXPECT_EQ(streamed->skipped_rows, 30u);
    EXPECT_EQ(held->skipped_rows, 30u);
    ASSERT_EQ(streamed->functions.size(), held->functions.size());
    for (size_t i = 0; i < held->functions.size(); ++i) {
      EXPECT_EQ(streamed->functions[i].name, held->functions[i].name);
    }
    EXPECT_EQ(drain(*streamed->arrivals), drain(*held->arrivals));
    EXPECT_FALSE(streamed->arrivals->failure().has_value());
  }
}

TEST(ExactTrace, FailsWhenItsRowsAreOthersTheSecondTime) {
  const std::string_view first = "t_ms,func\n1,a\n2,b\n3,a\n";
  for (const std::string_view again :
       {"t_ms,func\n1,a\n2,b\n", "t_ms,func\n1,a\n2,b\n3,a\n4,a\n", "t_ms,func\n1,a\n2,new\n3,a\n",
        "t_ms,func\n1,a\n2,b\nsoon,a\n", "t_ms,func\n1,a\n2,b\n1,a\n"}) {
    auto trace = read_trace(std::make_unique<Unsteady>(first, again), nullptr, "t.csv", {});
    ASSERT_TRUE(trace.ok()) << again;
    drain(*trace->arrivals);
    const auto failure = trace->arrivals->failure();
    ASSERT_TRUE(failure.has_value()) << again;
    EXPECT_EQ(failure->code, ErrorCode::kAborted);
    EXPECT_THAT(failure->message, HasSubstr("t.csv is not what it was"));
  }
  EXPECT_FALSE(read_trace(std::make_unique<Unsteady>(first, "a,b\n"), nullptr, "t.csv", {}).ok());
}

TEST(ExactTrace, KeepsTheNanosecondsOfAClock) {
  const TraceOptions options{.columns = columns({"start=start:ns", "end=end:ns"})};
  auto trace = read(
      "start,end\n1700000000000000000,1700000000000002000\n"
      "1700000000000000300,1700000000000003300\n",
      options);
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  const auto arrivals = drain(*trace->arrivals);
  ASSERT_EQ(arrivals.size(), 2u);
  EXPECT_FLOAT_EQ(arrivals[0].execution_s, 2e-6F);
  EXPECT_EQ(arrivals[1].at, Duration(300));
  EXPECT_FLOAT_EQ(arrivals[1].execution_s, 3e-6F);
  EXPECT_THAT(wrong_with("start,end\n1700000000000000001,1700000000000000000\n", options),
              HasSubstr("it ends before it begins"));
}

TEST(ExactTrace, HoldsNoMoreThanItMay) {
  const std::string text = "at,ran\n1,0.5\n2,0.1\n2,0.2\n2,0.3\n3,0.4\n";
  TraceOptions options{.columns = columns({"time=at:s", "duration=ran:s"}), .most_held = 3};
  auto fits = read(text, options);
  ASSERT_TRUE(fits.ok()) << fits.error().message;
  EXPECT_EQ(drain(*fits->arrivals).size(), 5u);
  EXPECT_FALSE(fits->arrivals->failure().has_value());

  options.most_held = 2;
  auto crowded = read(text, options);
  ASSERT_TRUE(crowded.ok()) << crowded.error().message;
  EXPECT_EQ(times_of(*crowded), std::vector<double>{0});
  auto failure = crowded->arrivals->failure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(failure->message, HasSubstr("folder/t.csv has more than 2 rows of one instant"));
  EXPECT_FALSE(crowded->arrivals->next().has_value());

  // Whole in memory, because the order is another.
  const auto held = read(text + "1,1\n", options);
  ASSERT_FALSE(held.ok());
  EXPECT_EQ(held.error().code, ErrorCode::kResourceExhausted);
  // Without run times a number for each function is enough.
  auto counted = read("t_ms,func\n1,a\n1,a\n1,b\n", options = {.most_held = 2});
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(drain(*counted->arrivals).size(), 3u);
}

TEST(ExactTrace, NamesTheFunctionsFileInItsErrors) {
  const auto trace = read("t_ms,func\n0,a\n", {}, "func,gpu_function\na\n");
  ASSERT_FALSE(trace.ok());
  EXPECT_THAT(trace.error().message, HasSubstr("t_functions.csv has 1 bad row: line 2"));
}

TEST(MinuteTrace, DrawsAsManyArrivalsInEachMinuteAsItCounts) {
  const char* text = "fid,label,total,1,2,3\nod0,bursty,5,0,4,1\nod1,steady,3,1,1,1\n";
  for (const Spreading how : {Spreading::kUniform, Spreading::kEquidistant}) {
    auto trace = read(text, {.spreading = how});
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_EQ(trace->format, "minutes");
    EXPECT_EQ(trace->functions[0].label, "bursty");
    std::vector<int> per_minute(3);
    Duration last{};
    int all = 0;
    while (const auto arrival = trace->arrivals->next()) {
      EXPECT_GE(arrival->at, last);
      last = arrival->at;
      ++all;
      if (arrival->function == 0) ++per_minute.at(static_cast<size_t>(last / seconds(60)));
    }
    EXPECT_EQ(per_minute, (std::vector<int>{0, 4, 1}));
    EXPECT_EQ(all, 8);
  }
}

TEST(MinuteTrace, IsTheSameForTheSameSeedAndAnotherForAnother) {
  const char* text = "HashOwner,HashApp,HashFunction,Trigger,480,481\no,a,f,http,9,9\n";
  auto once = read(text, {.seed = 7});
  auto again = read(text, {.seed = 7});
  auto other = read(text, {.seed = 8});
  ASSERT_TRUE(once.ok() && again.ok() && other.ok());
  const auto arrivals = drain(*once->arrivals);
  EXPECT_EQ(arrivals, drain(*again->arrivals));
  EXPECT_NE(arrivals, drain(*other->arrivals));
}

TEST(MinuteTrace, TakesAWindowOfWholeMinutes) {
  const char* text = "fid,1,2,3\nf,100,2,100\n";
  auto trace = read(text, {.start = seconds(60), .length = seconds(60), .rate_scale = 60});
  ASSERT_TRUE(trace.ok());
  const auto times = times_of(*trace);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_LT(times[1], 1.0);
  EXPECT_FALSE(read(text, {.start = seconds(30)}).ok());
  EXPECT_FALSE(read(text, {.start = seconds(180)}).ok());
}

TEST(MinuteTrace, NamesBadRowsByLine) {
  const auto trace = read("fid,label,total,1,2\nf,x,2,1,1\ng,x,0,1,-1\nf,x,1,1,0\nh,x,1,1\n");
  ASSERT_FALSE(trace.ok());
  EXPECT_THAT(trace.error().message, HasSubstr("3 bad rows"));
  EXPECT_THAT(trace.error().message, HasSubstr("line 3: minute 2 is '-1'"));
  EXPECT_THAT(trace.error().message, HasSubstr("line 4: function 'f' has a row already"));
  EXPECT_THAT(trace.error().message, HasSubstr("line 5: 4 fields where the header has 5"));
}

TEST(MinuteTrace, RefusesColumnsOfWhichNothingWouldBeMade) {
  EXPECT_THAT(read("fid,1,2,4,5\nf,1,1,1,1\n").error().message,
              HasSubstr("t.csv line 1: the minutes have gaps, for '4' comes after '2'"));
  EXPECT_THAT(read("fid,2,1,2\nf,1,1,1\n").error().message,
              HasSubstr("the minutes have gaps, for '1' comes after '2'"));
  EXPECT_THAT(read("fid,weight,1,2\nf,3,1,1\n").error().message,
              HasSubstr("t.csv line 1: nothing is known of the column 'weight'"));
  EXPECT_TRUE(read("HashOwner,HashApp,HashFunction,Trigger,total,7,8\no,a,f,http,2,1,1\n").ok());
}

TEST(Azure2021Trace, RefusesColumnsOfWhichNothingWouldBeMade) {
  EXPECT_THAT(read("app,func,end_timestamp,duration,memory\nx,f,57.5,7.5,9\n").error().message,
              HasSubstr("t.csv line 1: nothing is known of the column 'memory'"));
}

TEST(CsvField, IsQuotedWhereItWouldBreakTheRow) {
  EXPECT_EQ(csv_field("resnet-50"), "resnet-50");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"a\""), "\"say \"\"a\"\"\"");
}

TEST(Azure2021Trace, ArrivesWhenItEndedLessItsDuration) {
  auto trace = read("app,func,end_timestamp,duration\nx,f,57.5,7.5\nx,g,3,10\nx,f,60,1\n");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_EQ(trace->functions[0].recorded_s, 1.0);
  EXPECT_THAT(times_of(*trace), testing::Pointwise(testing::DoubleNear(1e-6), {0.0, 50.0, 59.0}));
  const auto bad = read("app,func,end_timestamp,duration\nx,f,soon,7.5\n");
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message, HasSubstr("line 2: end_timestamp is 'soon'"));
}

TEST(TraceReader, RefusesWhatItDoesNotKnow) {
  EXPECT_FALSE(read("").ok());
  EXPECT_FALSE(read("\n").ok());
  EXPECT_FALSE(read("a,b,c\n1,2,3\n").ok());
  EXPECT_FALSE(read("t_ms,func\n0,a\n", {.rate_scale = 0}).ok());
  EXPECT_EQ(read("t_ms,func\n" + std::string(1'100'000, 'x')).error().code, ErrorCode::kOutOfRange);
}

TEST(TraceReader, RefusesARateAtWhichItsTimesDoNotFit) {
  const TraceOptions slow{.rate_scale = 1e-6};
  const TraceOptions slowest{.rate_scale = 1e-300};
  for (const std::string_view text :
       {"t_ms,func\n0,f\n2000000,f\n", "fid,1,2\nf,1,1\n" /* two minutes */,
        "day,time,f\n0,0,1\n0,1000,1\n",
        "app,func,end_timestamp,duration\nx,f,2000,1\nx,f,3000,1\n"}) {
    const bool is_short = text.starts_with("fid");
    EXPECT_THAT(wrong_with(text, is_short ? slowest : slow), HasSubstr("folder/t.csv: ")) << text;
    EXPECT_THAT(wrong_with(text, slowest), HasSubstr("choose a higher rate")) << text;
    EXPECT_EQ(wrong_with(text, {.rate_scale = 1e-5}), "") << text;
  }
  const auto piped =
      read_trace(std::make_unique<OnceOnly>("t_ms,func\n2000000,f\n"), nullptr, "t.csv", slow);
  ASSERT_FALSE(piped.ok());
  EXPECT_EQ(piped.error().code, ErrorCode::kInvalidArgument);
}

TEST(TraceReader, SaysWhatAFileIsThatIsNoTable) {
  EXPECT_THAT(read("\xFD"
                   "7zXZ...\n")
                  .error()
                  .message,
              HasSubstr("packed with xz"));
  EXPECT_THAT(read("\x28\xB5\x2F\xFD...").error().message, HasSubstr("packed with zstd"));
  EXPECT_THAT(read("PK\x03\x04...").error().message, HasSubstr("a zip archive"));
  EXPECT_THAT(read("\xFF\xFEt").error().message, HasSubstr("in UTF-16"));
}

TEST(TraceReader, TakesTheMarkOfSpreadsheets) {
  auto trace = read("\xEF\xBB\xBFt_ms,function\r\n1.5,x\r\n");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_EQ(times_of(*trace), std::vector<double>{0.0015});
  EXPECT_FALSE(read("\xEF\xBB\xBF").ok());
}

TEST(ExactTrace, TellsTimesOfTheDayFromTimesSinceTheBegin) {
  EXPECT_THAT(read("t_ms,function\n1700000000000,x\n").error().message,
              HasSubstr("times count from the trace's begin"));
}

TEST_F(TraceFile, IsNoFolder) {
  const auto folder = open_trace(folder_, {});
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(folder.error().message, HasSubstr("is a folder"));
}

TEST_F(TraceFile, IsReadPackedAndNoticedWhenDamaged) {
  const std::string path = folder_ / "g.csv.gz";
  gzFile out = gzopen(path.c_str(), "wb");
  const std::string text = rows_text(50'000);
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);

  auto whole = open_trace(path, {});
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(whole->name, "g");
  EXPECT_EQ(drain(*whole->arrivals).size(), 50'000u);

  auto packed = read_file(path, 1 << 20);
  ASSERT_TRUE(packed.ok());
  ASSERT_TRUE(write_file_atomically(path, packed->substr(0, packed->size() / 2), false).ok());
  const auto half = open_trace(path, {});
  ASSERT_FALSE(half.ok());
  EXPECT_EQ(half.error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(open_trace(folder_ / "none.csv", {}).error().code, ErrorCode::kNotFound);
}

TEST_F(TraceFile, WrittenToWhileItIsReadFailsInsteadOfEndingEarly) {
  const std::string path = write("t.csv", rows_text(100'000));
  auto trace = open_trace(path, {});
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  ASSERT_TRUE(trace->arrivals->next().has_value());
  std::filesystem::resize_file(path, 500'000);
  EXPECT_LT(drain(*trace->arrivals).size(), 99'999u);
  const auto failure = trace->arrivals->failure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code, ErrorCode::kAborted);
  EXPECT_THAT(failure->message, HasSubstr("t.csv line "));
  EXPECT_THAT(failure->message, HasSubstr("another program wrote to the file"));
}

TEST_F(TraceFile, PutInThePlaceOfOneThatIsReadLeavesThatAlone) {
  auto trace = open_trace(write("t.csv", rows_text(100'000)), {});
  ASSERT_TRUE(trace.ok());
  write("t.csv", rows_text(10));
  EXPECT_EQ(drain(*trace->arrivals).size(), 100'000u);
  EXPECT_FALSE(trace->arrivals->failure().has_value());
}

TEST_F(TraceFile, ComesThroughAPipeToo) {
  const std::string path = folder_ / "pipe.csv";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const std::string text = rows_text(50'000);
  std::thread writer([&] {
    const OwnedFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    EXPECT_TRUE(write_all(fd.get(), text).ok());
  });
  auto trace = open_trace(path, {});
  writer.join();
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_EQ(drain(*trace->arrivals).size(), 50'000u);
}

TEST_F(TraceFile, TellsItsFailureThroughAWindow) {
  const std::string path = write("t.csv", rows_text(100'000));
  auto trace = open_trace(path, {});
  ASSERT_TRUE(trace.ok());
  const auto window = window_of(std::move(trace->arrivals), Duration(0), seconds(1000), 1);
  std::filesystem::resize_file(path, 500'000);
  drain(*window);
  EXPECT_TRUE(window->failure().has_value());
}

}  // namespace
}  // namespace lambent::workload
