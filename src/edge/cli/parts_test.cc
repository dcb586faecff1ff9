// The small parts of the command: words, numbers, plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/testing/testing.h"
#include "edge/cli/gauge.h"
#include "edge/cli/replay_plan.h"
#include "edge/cli/run_summary.h"
#include "edge/cli/staging.h"

namespace lambent::cli {
namespace {

TEST(Gauge, IsTheMeanOverTheDevices) {
  constexpr std::string_view kText =
      "# TYPE g gauge\ng_other 9\ng{gpu=\"0\"} 0.5\ng{gpu=\"1\"} 1\nnot_g 3\ng NaN\n";
  EXPECT_EQ(mean_of_gauge(kText, "g"), 0.75);
  EXPECT_FALSE(mean_of_gauge(kText, "h").has_value());
}

TEST(PathWords, KnowFoldersAndLastNames) {
  EXPECT_EQ(join_path("/a/b", "../c"), "/a/c");
  EXPECT_EQ(join_path("/a", "/x"), "/x");
  EXPECT_EQ(folder_of("lambent.toml"), ".");
  EXPECT_EQ(folder_of("a/b/lambent.toml"), "a/b");
  EXPECT_EQ(last_part("/a/b/"), "b");
}

ReplayOptions plan_options() {
  return {.catalogue = LAMBENT_SOURCE_DIR "/share/catalogue/mqfq_table1.csv"};
}

TEST(ReplayPlan, GeneratesAWorkloadWhenThereIsNoTrace) {
  const auto plan = make_plan(plan_options());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->trace.functions.size(), 24u);
  EXPECT_EQ(plan->deployed_names[3], "replay-f0003");
  ReplayOptions options = plan_options();
  options.time_scale = 10;
  for (size_t i = 0; i < plan->entries.size(); ++i) {
    options.cpu_variants = i % 2 == 1;
    const FunctionSpec spec = paper_function_spec(*plan, i, options);
    EXPECT_EQ(spec.cpu_variant.has_value(), i % 2 == 1);
    EXPECT_TRUE(validate(spec).ok()) << validate(spec).error().message;
    EXPECT_EQ(spec.gpu.memory, plan->entries[i].device_memory);
    EXPECT_EQ(spec.environment.at("LAMBENT_TIME_SCALE"), "10");
  }
}

TEST(ReplayPlan, DeploysPhasesIfAskedAndOnlyWhereTheCatalogueHasThem) {
  ReplayOptions options = plan_options();
  options.phases = true;
  const auto plan = make_plan(options);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  for (size_t i = 0; i < plan->entries.size(); ++i) {
    if (plan->entries[i].name != "FFT") continue;
    EXPECT_EQ(paper_function_spec(*plan, i, options).environment.at("LAMBENT_PAPER_PHASES"),
              "90.400,1536,538.200,1536,4,1");
  }
  const TemporaryFolder folder;
  options.catalogue = folder / "c.csv";
  std::ofstream(options.catalogue)
      << "name,gpu_warm_s,cpu_warm_s,gpu_cold_s,device_memory_mib,times_source,memory_source\n"
         "f,1,2,3,100,p,g\n";
  const auto none = make_plan(options);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, testing::HasSubstr("no phases of 'f'"));
  options.phases = false;
  EXPECT_TRUE(make_plan(options).ok());
}

TEST(ReplayPlan, DrawsATracesArrivalsAnewIfAsked) {
  const TemporaryFolder folder;
  ReplayOptions options = plan_options();
  options.trace = folder / "t.csv";
  std::ofstream file(options.trace);
  file << "t_ms,function\n";
  for (int i = 0; i < 100; ++i) file << i * i << ",f\n";
  file.close();
  const auto arrivals = [&] { return workload::drain(*make_plan(options)->trace.arrivals); };
  const auto as_it_is = arrivals();
  options.resamples = true;
  const auto anew = arrivals();
  EXPECT_EQ(make_plan(options)->trace.name, "t-resampled");
  EXPECT_NE(anew, as_it_is);
  EXPECT_EQ(anew, arrivals());
  options.read.seed = 2;
  EXPECT_NE(anew, arrivals());
  options.trace.clear();
  EXPECT_EQ(make_plan(options).error().code, ErrorCode::kInvalidArgument);
}

TEST(ReplayPlan, TakesRunTimesAndNumbersOfGpusFromATraceThatHasThem) {
  const TemporaryFolder folder;
  ReplayOptions options = plan_options();
  options.trace = folder / "pods.csv";
  std::ofstream(options.trace)
      << "cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
         "1,1,2,1000,0,100,0\n1,1,2,1000,10,210,10\n1,1,1,1000,20,21,20\n";
  const auto plan = make_plan(options);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->entries.size(), 2u);
  EXPECT_DOUBLE_EQ(plan->entries[0].gpu_warm_s, 150);
  EXPECT_EQ(plan->entries[0].gpu_count, 2u);
  // The longest of the catalogue that is not above a second is FFT, which starts in 1.751 s.
  EXPECT_EQ(plan->entries[1].name, "FFT");
  EXPECT_DOUBLE_EQ(plan->entries[1].gpu_warm_s, 1);
  EXPECT_NEAR(plan->entries[1].init_s(), 2.648 - 0.897, 1e-9);
  EXPECT_NEAR(plan->entries[1].cpu_warm_s, 11.584 / 0.897, 1e-9);
  EXPECT_THAT(plan->assumptions, testing::Contains(testing::HasSubstr("the catalogue's longest")));
  options.phases = true;
  EXPECT_THAT(make_plan(options).error().message, testing::HasSubstr("leave out --phases"));
}

TEST(ReplayPlan, SaysWhatToDoWithoutACatalogue) {
  for (const char* path : {"", "/nowhere/c.csv"}) {
    ReplayOptions options = plan_options();
    options.catalogue = path;
    const auto plan = make_plan(options);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, ErrorCode::kNotFound);
    EXPECT_NE(plan.error().message.find("--functions FILE"), std::string::npos);
    EXPECT_NE(plan.error().message.find(path), std::string::npos);
  }
}

TEST(ReplayPlan, MakesNamesThatTheWorkerTakes) {
  EXPECT_EQ(deployed_name("replay-", "a.b/c"), "replay-a-b-c");
  EXPECT_EQ(deployed_name("replay-", std::string(64, 'a')).size(), 64u);
}

TEST(RunSummary, TellsWhatMovedWhereMemoryDid) {
  RunFigures run{.label = "r"};
  run.summary = {.count = 10, .mean_s = 1, .gpu_cold_ratio = 0.5, .memory_mean_s = 0.25};
  EXPECT_EQ(table_of({run}).find("moves"), std::string::npos);
  EXPECT_EQ(json_of(run).find("\"moves\""), std::string::npos);
  run.moves = {.in = 5, .out = 6, .bytes = Bytes::gib(22), .prefetches = 3, .prefetch_hits = 2};
  EXPECT_NE(
      table_of({run}).find("moves of r: 5 in, 6 out, 22 GiB; 50.0 % gpu_cold, waiting 0.250 s "
                           "on average over all; 3 fetched ahead, 2 of them used"),
      std::string::npos)
      << table_of({run});
  EXPECT_NE(json_of(run).find("\"prefetch_hits\": 2"), std::string::npos);
}

TEST(RunSummary, CallsARunInvalidWhoseOverheadIsMoreThanTwoPercent) {
  RunFigures run{.label = "r"};
  run.header = {.time_scale = 10, .overhead_s = 0.001};
  run.summary = {.count = 1, .mean_s = 1};
  EXPECT_EQ(reason_invalid(run), "");
  run.summary.mean_s = 0.4;
  EXPECT_NE(reason_invalid(run).find("2.5 % of the mean latency"), std::string::npos);
  EXPECT_NE(table_of({run}).find("INVALID r"), std::string::npos);
  EXPECT_NE(json_of(run).find("\"valid\": false"), std::string::npos);
  run.header.overhead_s.reset();
  EXPECT_EQ(reason_invalid(run), "");
}

TEST(RunSummary, CallsARunInvalidWhoseResultFileHasNoEnd) {
  workload::RunFile file{.name = "r.jsonl", .end = workload::RunEnd{.elapsed_s = 2}};
  EXPECT_EQ(reason_invalid(figures_of(file)), "");
  file.end.reset();
  const RunFigures part = figures_of(file);
  EXPECT_NE(table_of({part}).find("INVALID r.jsonl: its result file has no end"),
            std::string::npos);
  EXPECT_NE(json_of(part).find("\"invalid_because\": \"its result file has no end"),
            std::string::npos);
}

}  // namespace
}  // namespace lambent::cli
