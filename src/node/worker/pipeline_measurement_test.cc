#include "node/worker/pipeline_measurement.h"

#include <gmock/gmock.h>

#include "node/worker/testing/pipeline_testing.h"

namespace lambent::worker {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST_F(PipelineHostTest, LearnsHowLongComponentsReallyTake) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(R"({"scale": 2})"), nullptr, "");
  const auto slo = [&] {
    return json::parse(*host->status().describe(spec.id))["slo"]["ms"].get<double>();
  };
  const double before = slo();
  submit(1);
  all_ready(1);
  for (uint64_t i = 2; i < 40; ++i) {
    submit(i);
    answer(newest(0, 1), R"({"components": {"blur": {"ms": 30, "ran": 1}, "classify": {"ms": 30,
        "ran": 1}}, "results": [{"value": 1}]})");
  }
  EXPECT_FALSE(profiles.empty()) << "they are kept over a restart";
  EXPECT_GT(slo(), before * 1.5);
  const auto told = json::parse(*host->status().describe(spec.id));
  EXPECT_EQ(told["instances"][0]["stages"][0][0]["components"], json({"blur", "classify"}));
  EXPECT_EQ(told["instances"][0]["state"], "loaded");
}

TEST_F(PipelineHostTest, MeasuresAFunctionOnASliceOfEachShape) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "2g.20gb", 28, kLarge),
         slice(2, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  std::optional<Result<std::string>> told;
  host->measure(spec.id, R"({"n": 1})", 3, [&](Result<std::string> result) { told = result; });
  ASSERT_EQ(stage_processes.order.size(), 1u) << "it does not fit the small slice in one piece";
  EXPECT_FALSE(json::parse(*host->status().describe(spec.id))["slices"][1]["free"].get<bool>());
  std::optional<Error> second;
  host->measure(spec.id, "{}", 3, [&](Result<std::string> result) { second = result.error(); });
  EXPECT_EQ(second->code, ErrorCode::kResourceExhausted);
  all_ready(1);
  for (const int ms : {500, 30, 40, 50}) {  // the first one warms up
    answer(newest(0, 1), R"({"components": {"blur": {"ms": )" + std::to_string(ms) +
                             R"(, "ran": 1, "memory": 8388608, "weights": 1048576, "output": 64}},
                             "results": [{"value": 1}]})");
  }
  EXPECT_TRUE(stage_processes.stage_processes.at(newest(0, 1)).stopped);
  end_stage_process(newest(0, 1), "stopped");
  for (int i = 0; i < 100 && !told; ++i) loop.run_once(milliseconds(0));
  ASSERT_TRUE(told.has_value());
  ASSERT_TRUE(told->ok()) << told->error().message;
  const auto answer = json::parse(**told);
  EXPECT_EQ(answer["measured"], json({"2g.20gb"}));
  EXPECT_THAT(answer["skipped"][0]["why"], HasSubstr("in one piece"));
  EXPECT_EQ(answer["profile"]["components"]["blur"]["ms"]["2g.20gb"], 40);
  EXPECT_EQ(answer["profile"]["components"]["blur"]["memory_mb"], 8);
  EXPECT_TRUE(json::parse(*host->status().describe(spec.id))["slices"][1]["free"].get<bool>());
  EXPECT_EQ(profiles.size(), 1u);
}

TEST_F(PipelineHostTest, WhatCouldNotBeMeasuredSaysWhy) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  std::optional<Result<std::string>> told;
  const auto note = [&](Result<std::string> result) { told = result; };
  host->measure(spec.id, "no event", 3, note);
  EXPECT_EQ(told->error().code, ErrorCode::kInvalidArgument);
  host->measure(FunctionId(9), "{}", 3, note);
  EXPECT_EQ(told->error().code, ErrorCode::kNotFound);
  told.reset();
  host->measure(spec.id, "{}", 3, note);
  all_ready(1);
  answer(newest(0, 1), R"({"components": {}, "results": [{"error": {"errorType": "KeyError"}}]})");
  end_stage_process(newest(0, 1), "stopped");
  for (int i = 0; i < 100 && !told; ++i) loop.run_once(milliseconds(0));
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(told->error().message, HasSubstr("KeyError"));
  submit(1);
  told.reset();
  host->measure(spec.id, "{}", 3, note);
  EXPECT_FALSE(told.has_value()) << "an instance that is idle on a slice is evicted";
  EXPECT_TRUE(stage_processes.stage_processes.at(stage_processes.order.back()).stopped);
  host.reset();
  EXPECT_EQ(told->error().code, ErrorCode::kUnavailable) << "every request gets an answer";
}

TEST_F(PipelineHostTest, AMeasurementEndsWithWhatItMeasures) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  std::optional<Result<std::string>> told;
  const auto measure = [&] {
    told.reset();
    host->measure(spec.id, "{}", 3, [&](Result<std::string> result) { told = result; });
    ASSERT_FALSE(told.has_value());
    all_ready(1);
  };
  const auto ended = [&] {
    const SandboxId stage_process = stage_processes.order.back();
    EXPECT_TRUE(stage_processes.stage_processes.at(stage_process).stopped);
    end_stage_process(stage_process, "stopped");
    for (int i = 0; i < 100 && !told; ++i) loop.run_once(milliseconds(0));
    return told ? told->error().code : ErrorCode::kUnknown;
  };
  measure();
  host->put(spec, two_models(), nullptr, "");
  EXPECT_EQ(ended(), ErrorCode::kAborted) << "its code is another one now";
  measure();
  host->device_reading(mig_instance(0, 0), true);
  EXPECT_EQ(ended(), ErrorCode::kUnavailable);
  submit(1);
  const size_t before = stage_processes.order.size();
  EXPECT_EQ(before, 2u) << "a lost slice does not come back with the end of a measurement";
  EXPECT_TRUE(ends.empty()) << "who needs it waits for it";
  host->device_reading(mig_instance(0, 0), false);
  EXPECT_EQ(stage_processes.order.size(), before + 1);
  all_ready(1);
  answer(newest(0, 1), R"({"components": {}, "results": [{"value": 1}]})");
  EXPECT_EQ(ends.size(), 1u);
}

TEST_F(PipelineHostTest, AMeasurementEndsWhenItsFunctionIsRemovedOrTheWorkerStops) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  std::optional<Result<std::string>> told;
  const auto note = [&](Result<std::string> result) { told = result; };
  host->measure(spec.id, "{}", 3, note);
  host->remove(spec.id);
  end_stage_process(stage_processes.order.back(), "stopped");
  for (int i = 0; i < 100 && !told; ++i) loop.run_once(milliseconds(0));
  EXPECT_EQ(told->error().code, ErrorCode::kNotFound);
  told.reset();
  host->put(spec, two_models(), nullptr, "");
  host->measure(spec.id, "{}", 3, note);
  host->drain();
  EXPECT_TRUE(stage_processes.stage_processes.at(stage_processes.order.back()).stopped);
  host.reset();
  EXPECT_EQ(told->error().code, ErrorCode::kUnavailable);
}

TEST_F(PipelineHostTest, AProfileThatCannotBePlannedIsNotTaken) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  std::string huge = R"({"profile": 1, "context_mb": 1, "start_ms": 1, "shapes": {}, "components": {
      "blur": {"weights_mb": 900000, "memory_mb": 900000, "output_bytes": 1, "probability": 1,
               "ms": {}}}})";
  host->put(spec, two_models(), nullptr, huge);
  const InvocationId id = submit(1);
  all_ready(1);
  answer(newest(0, 1), R"({"components": {}, "results": [{"value": 1}]})");
  EXPECT_EQ(ends.at(id).outcome, Outcome::kSucceeded) << "the package's own is";
}

TEST_F(PipelineHostTest, RequestsThatFailSayNothingOfHowOftenComponentsRun) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  submit(1);
  all_ready(1);
  answer(newest(0, 1),
         R"({"components": {"blur": {"ms": 1, "ran": 1}, "classify": {"ms": 0, "ran": 0}},
      "results": [{"error": {"errorType": "ValueError"}}]})");
  const auto told = json::parse(*host->status().describe(spec.id));
  EXPECT_EQ(told["profile"]["components"]["classify"]["probability"], 1);
}

}  // namespace
}  // namespace lambent::worker
