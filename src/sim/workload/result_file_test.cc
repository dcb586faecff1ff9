#include "sim/workload/result_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::workload {
namespace {

using testing::HasSubstr;

std::string small_run() {
  RunHeader header{.trace = "t7", .policy = "mqfq", .time_scale = 10, .overhead_s = 0.001};
  header.functions = {{"a", "FFT", 0.897}, {"b \"quoted\"", "Lud", 2.05}};
  std::string text = line_of(header);
  RunRecord good{.at_s = 0.5};
  good.sample = {.function = 0,
                 .latency_s = 2,
                 .queue_s = 0.5,
                 .cold_s = 0.5,
                 .run_s = 0.75,
                 .memory_s = 0.25,
                 .start = StartClass::kCold,
                 .in_time = true};
  text += line_of(good);
  RunRecord dropped{.at_s = 1, .outcome = RunOutcome::kDropped, .error = "outstanding"};
  dropped.sample.function = 1;
  dropped.sample.succeeded = false;
  dropped.sample.in_time = false;
  text += line_of(dropped);
  text += line_of(RunReading{.at_s = 1, .utilisation = 0.25, .in_flight = 3});
  text += line_of(RunReading{.at_s = 2, .in_flight = 2});
  return text + line_of(RunEnd{.elapsed_s = 4});
}

TEST(ResultFile, IsReadBackAsItWasWritten) {
  const auto run = read_run(*lines_of(small_run()), "r.jsonl");
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_EQ(run->header.policy, "mqfq");
  EXPECT_EQ(run->header.functions[1].name, "b \"quoted\"");
  ASSERT_EQ(run->records.size(), 2u);
  EXPECT_EQ(run->records[0].sample.start, StartClass::kCold);
  EXPECT_EQ(run->records[0].sample.memory_s, 0.25);
  EXPECT_EQ(run->records[1].outcome, RunOutcome::kDropped);
  EXPECT_EQ(mean_utilisation(run->readings), 0.25);
  const Summary summary = summarise(*run);
  EXPECT_EQ(summary.count, 1u);
  EXPECT_EQ(summary.failed, 1u);
  EXPECT_EQ(run->records[0].sample.in_time, true);
  EXPECT_EQ(summary.slo_hit_ratio, 0.5);
  EXPECT_EQ(summary.functions[1].slo_hit_ratio, 0);
  EXPECT_DOUBLE_EQ(summary.busy_ratio.value(), 0.1875);
  // Ten times one millisecond over two seconds.
  EXPECT_DOUBLE_EQ(overhead_share(run->header, summary).value(), 0.005);
  std::string again = line_of(run->header);
  EXPECT_TRUE(small_run().starts_with(again));
}

TEST(ResultFile, KeepsTheIdsOfInvocations) {
  RunRecord record{.invocation = "0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a"};
  const std::string text = small_run() + line_of(record);
  const auto run = read_run(*lines_of(text), "r.jsonl");
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_EQ(run->records[0].invocation, "");
  EXPECT_EQ(run->records[2].invocation, record.invocation);
}

TEST(ResultFile, SaysWhatToDoWithOneThatWasCutOff) {
  const std::string whole = small_run();
  const size_t end = whole.rfind("{\"elapsed_s\"");
  const auto between_lines = read_run(*lines_of(whole.substr(0, end)), "r.jsonl");
  ASSERT_TRUE(between_lines.ok());
  EXPECT_FALSE(between_lines->end.has_value());
  const auto within_one = read_run(*lines_of(whole.substr(0, end - 5)), "r.jsonl");
  ASSERT_FALSE(within_one.ok());
  EXPECT_THAT(within_one.error().message, HasSubstr("line 5: not a JSON object; the run was cut"));
}

TEST(ResultFile, NamesBadLines) {
  std::string text =
      small_run() + "nonsense\n{\"function\":7,\"outcome\":\"succeeded\",\"at_s\":1}\n" +
      "{\"function\":0,\"outcome\":\"succeeded\",\"start\":\"warm\",\"at_s\":1}\n{}\n";
  const auto run = read_run(*lines_of(text), "r.jsonl");
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.error().message, HasSubstr("r.jsonl has 4 bad rows: line 7: not a JSON object"));
  EXPECT_THAT(run.error().message, HasSubstr("line 8: 'function' is not an index"));
  EXPECT_THAT(run.error().message, HasSubstr("line 9: 'latency_s' is not there"));
  EXPECT_THAT(run.error().message, HasSubstr("line 10: 'reading_at_s' is not there"));
  EXPECT_FALSE(read_run(*lines_of(""), "r").ok());
  EXPECT_FALSE(read_run(*lines_of("{\"lambent_run\":99}\n"), "r").ok());
}

}  // namespace
}  // namespace lambent::workload
