#include "node/worker/pipeline_isolation.h"

#include <gmock/gmock.h>

#include "node/worker/testing/pipeline_testing.h"

namespace lambent::worker {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST_F(PipelineHostTest, ChoosesBetweenSlicesAndASharedDeviceByHowBusyItIs) {
  setting.shared.shape = {"A100", 98, Bytes::gib(80)};
  setting.shared.longest_run = seconds(60);
  spec.gpu.memory = Bytes::gib(18);
  begin({slice(0, "2g.20gb", 28, kLarge)});
  using pipeline::Isolation;
  host->put(spec, two_models(), nullptr, "");
  EXPECT_EQ(host->isolation_of_next(spec.id), Isolation::kSlices) << "as its author has it";

  host->put(spec, two_models(R"({"ms": 100})", "auto"), nullptr, "");
  const auto told = [&] { return json::parse(*host->status().describe(spec.id))["isolation"]; };
  EXPECT_EQ(told()["rule"], "auto");
  EXPECT_EQ(host->isolation_of_next(spec.id), Isolation::kSlices) << "nothing is known yet";
  for (int second = 0; second < 40; ++second) {
    clock.advance(seconds(1));
    host->isolation_of_next(spec.id);
  }
  // One a second of 20 ms is 2 % of the time.
  EXPECT_EQ(host->isolation_of_next(spec.id), Isolation::kShared);
  EXPECT_EQ(told()["chosen"], "shared");
  EXPECT_THAT(told()["reasons"].back().get<std::string>(), HasSubstr("busy for 2 %"));
  ASSERT_TRUE(host->whole(spec.id).has_value());
  EXPECT_EQ(host->whole(spec.id)->handler, "app.App");
  EXPECT_EQ(host->whole(spec.id)->kind, FunctionKind::kHandler);
  // Forty a second are 80 %.
  for (int at = 0; at < 40 * 70; ++at) {
    clock.advance(milliseconds(25));
    host->isolation_of_next(spec.id);
  }
  EXPECT_EQ(host->isolation_of_next(spec.id), Isolation::kSlices);
  host->device_reading(mig_instance(0, 0), true);
  EXPECT_EQ(host->isolation_of_next(spec.id), Isolation::kShared) << "its slice is gone";
  EXPECT_EQ(host->ended_whole(spec.id, Outcome::kSucceeded, milliseconds(50)), true);
  EXPECT_EQ(host->ended_whole(spec.id, Outcome::kSucceeded, milliseconds(150)), false);
  EXPECT_EQ(host->status().counts(spec.id).completed, 2u);
}

TEST_F(PipelineHostTest, SharesADeviceAloneIfItsAuthorSaysSo) {
  setting.shared.shape = {"A100", 98, Bytes::gib(80)};
  setting.shared.longest_run = seconds(60);
  begin({});
  const auto package = two_models(R"({"ms": 100})", "shared");
  EXPECT_EQ(PipelineHost::check(setting, spec, *package).error().code, ErrorCode::kInvalidArgument)
      << "it has to say how much memory it needs";
  spec.gpu.memory = Bytes::gib(100);
  EXPECT_EQ(PipelineHost::check(setting, spec, *package).error().code, ErrorCode::kInvalidArgument);
  spec.gpu.memory = Bytes::gib(18);
  const auto planned = PipelineHost::check(setting, spec, *package);
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  host->put(spec, package, *planned, "");
  EXPECT_EQ(host->isolation_of_next(spec.id), pipeline::Isolation::kShared);
  spec.timeout = seconds(61);
  EXPECT_THAT(PipelineHost::check(setting, spec, *package).error().message,
              HasSubstr("--longest-gpu-run"));
  setting.shared = {};
  EXPECT_EQ(PipelineHost::check(setting, spec, *package).error().code,
            ErrorCode::kFailedPrecondition);
}

TEST_F(PipelineHostTest, ABusyDeviceServesWhoHasNothingElse) {
  setting.shared.shape = {"A100", 98, Bytes::gib(80)};
  setting.shared.longest_run = seconds(60);
  setting.shared.utilisation = [] { return 1.0; };
  spec.gpu.memory = Bytes::gib(18);
  begin({});
  const auto package = two_models(R"({"ms": 100})", "auto");
  const auto planned = PipelineHost::check(setting, spec, *package);
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  host->put(spec, package, *planned, "");
  EXPECT_EQ(host->isolation_of_next(spec.id), pipeline::Isolation::kShared);
  // Slices that will never do are none.
  begin({slice(0, "1g.5gb", 14, Bytes::gib(5))});
  host->put(spec, package, nullptr, "");
  EXPECT_EQ(host->isolation_of_next(spec.id), pipeline::Isolation::kShared);
}

TEST_F(PipelineHostTest, MeasuredToNeedMoreThanItAsksForItKeepsToSlices) {
  setting.shared.shape = {"A100", 98, Bytes::gib(80)};
  setting.shared.longest_run = seconds(60);
  begin({slice(0, "2g.20gb", 28, kLarge)});
  // 15 GiB and its context are what it was measured to need.
  const auto after_a_while = [&](Bytes memory) {
    spec.gpu.memory = memory;
    host->put(spec, two_models(R"({"ms": 100})", "auto"), nullptr, "");
    for (int second = 0; second < 80; ++second) {
      host->isolation_of_next(spec.id);
      clock.advance(seconds(1));
    }
    return host->isolation_of_next(spec.id);
  };
  EXPECT_EQ(after_a_while(Bytes::gib(6)), pipeline::Isolation::kSlices);
  EXPECT_THAT(*host->status().describe(spec.id), HasSubstr("the shared device has 6.4 GiB"));
  EXPECT_EQ(after_a_while(Bytes::gib(16)), pipeline::Isolation::kShared);
}

TEST_F(PipelineHostTest, WhatWaitsForASharedDeviceIsServedThereAfterAChangeToSlices) {
  setting.shared.shape = {"A100", 98, Bytes::gib(80)};
  setting.shared.longest_run = seconds(60);
  spec.gpu.memory = Bytes::gib(18);
  begin({slice(0, "2g.20gb", 28, kLarge)});
  for (const char* rule : {"shared", "auto", "slices"}) {
    host->put(spec, two_models(R"({"ms": 100})", rule), nullptr, "");
    ASSERT_TRUE(host->whole(spec.id).has_value()) << rule;
    EXPECT_EQ(host->whole(spec.id)->handler, "app.App");
  }
  EXPECT_EQ(host->isolation_of_next(spec.id), pipeline::Isolation::kSlices);
  spec.gpu.memory = Bytes(0);
  host->put(spec, two_models(), nullptr, "");
  EXPECT_EQ(host->whole(spec.id), std::nullopt) << "it could be nowhere but on slices";
}

}  // namespace
}  // namespace lambent::worker
