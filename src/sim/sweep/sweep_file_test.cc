#include "sim/sweep/sweep_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sweep/sweep_page.h"
#include "sim/sweep/sweep_text.h"

namespace lambent::sweep {
namespace {

using ::testing::HasSubstr;

const Grid kGrid{{{"D", {"1", "2"}}, {"policy", {"fcfs", "batch"}}}, 1, 2};
const SweepHeader kHeader{"1.2.3", {"t7.csv", "--pool", "10"}, kGrid};

CellResult result(const Cell& cell, double mean_s) {
  CellResult one{cell, {}};
  one.figures.assign(metrics().size(), std::nullopt);
  one.figures[*metric_index("mean_s")] = mean_s;
  return one;
}

std::string file_of(size_t cells) {
  std::string text = line_of(kHeader);
  const auto all = kGrid.cells();
  for (size_t i = 0; i < cells; ++i) {
    text += line_of(result(all[i], 0.1 + static_cast<double>(i)), kGrid);
  }
  return text;
}

TEST(SweepFile, ComesBackAsItWasWritten) {
  const auto read = read_sweep(file_of(3), "sweep.jsonl");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->header, kHeader);
  ASSERT_EQ(read->results.size(), 3u);
  EXPECT_EQ(read->results[2].cell, kGrid.cells()[2]);
  EXPECT_EQ(read->results[2].figures[*metric_index("mean_s")], 2.1);
  EXPECT_EQ(read->results[2].figures[*metric_index("p99_s")], std::nullopt);
}

TEST(SweepFile, KeepsWhatWasAssumed) {
  CellResult assumed = result(kGrid.cells()[0], 1);
  assumed.assumptions = {"b", "a"};
  const auto read = read_sweep(line_of(kHeader) + line_of(assumed, kGrid), "sweep.jsonl");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->results[0].assumptions, assumed.assumptions);
  EXPECT_EQ(assumptions_of({assumed, read->results[0], result(kGrid.cells()[1], 1)}),
            (std::set<std::string>{"a", "b"}));
}

TEST(SweepFile, GoesOnBeforeALineThatWasCutOff) {
  const std::string whole = file_of(2);
  const std::string text = file_of(3);
  for (size_t cut = whole.size(); cut < text.size(); ++cut) {
    const auto read = read_sweep(text.substr(0, cut), "sweep.jsonl");
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->results.size(), 2u);
    EXPECT_EQ(read->whole_bytes, whole.size());
  }
  EXPECT_EQ(read_sweep("", "sweep.jsonl")->whole_bytes, 0u);
}

TEST(SweepFile, NamesTheLineThatIsWrong) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"{}\n", "x.jsonl:1: not the file of a sweep"},
           {"t_ms,func\n", "x.jsonl:1: not a line"},
           {"{\"sweep\":2}\n", "x.jsonl:1: a sweep of another format"},
           {"{\"sweep\":1,\"version\":3}\n", "x.jsonl:1: a header"},
           {file_of(1) + "{\"cell\":{}}\n",
            "x.jsonl:3: not the figures of a cell; give another --out"},
           {file_of(0) + line_of(result({{"9", "fcfs"}, 1}, 1), kGrid), "x.jsonl:2: a cell that"},
           {file_of(0) + line_of(result({{"1", "fcfs"}, 3}, 1), kGrid),
            "x.jsonl:2: a cell that"}}) {
    const auto read = read_sweep(text, "x.jsonl");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.error().message, HasSubstr(why));
  }
}

TEST(SweepFile, TellsHowSweepsDiffer) {
  SweepHeader other = kHeader;
  EXPECT_EQ(difference(kHeader, other), "");
  other.arguments.push_back("--gpus=2");
  EXPECT_THAT(difference(kHeader, other), HasSubstr("other flags"));
  other.grid.seeds = 3;
  other.arguments = kHeader.arguments;
  EXPECT_THAT(difference(kHeader, other), HasSubstr("another grid"));
  other.version = "2";
  EXPECT_THAT(difference(kHeader, other), HasSubstr("version 1.2.3"));
}

TEST(SweepText, RowsHaveMeansAndIntervals) {
  const auto cells = kGrid.cells();
  const auto points = points_of(kGrid, {result(cells[0], 1), result(cells[1], 3)});
  const std::string csv = csv_of(kGrid, points);
  EXPECT_THAT(csv, HasSubstr("D,policy,seeds,mean_s,mean_s_half_width,p50_s"));
  EXPECT_THAT(csv, HasSubstr("\n1,fcfs,2,2.0,12.706"));
  const std::string json = json_of(kGrid, points, {"all is well"});
  EXPECT_THAT(json, HasSubstr("\"policy\": \"fcfs\""));
  EXPECT_THAT(json, HasSubstr("\"assumptions\": [\n  \"all is well\"\n ]"));
  EXPECT_FALSE(seeds_change_nothing(points));
}

TEST(SweepPage, HasAMapPerMetricAndEscapesNames) {
  const Grid grid{{{"D", {"1", "2"}}, {"<b>", {"x", "y&z"}}}, 1, 1};
  std::vector<CellResult> results;
  double mean_s = 1;
  for (const Cell& cell : grid.cells()) results.push_back(result(cell, mean_s *= 3));
  const std::string page =
      html_of({"A <title>", "what was run", {*metric_index("mean_s")}, 0, 1, {"x < y"}}, grid,
              points_of(grid, results));
  EXPECT_THAT(page, HasSubstr("A &lt;title&gt;"));
  EXPECT_THAT(page, HasSubstr("y&amp;z"));
  EXPECT_THAT(page, HasSubstr("<li>x &lt; y</li>"));
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  // The least is framed, the most is the darkest: four cells, one of them framed.
  EXPECT_THAT(page, HasSubstr("class=\"heat h0\"><title>3</title>"));
  EXPECT_THAT(page, HasSubstr("class=\"heat h10\"><title>81</title>"));
  EXPECT_THAT(page, HasSubstr("simulated"));
}

}  // namespace
}  // namespace lambent::sweep
