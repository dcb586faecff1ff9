#include "worker/pipeline_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing.h"
#include "pipeline/pipeline_json.h"
#include "slice_scheduling/make_policy.h"

namespace lambent::worker {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Bytes kLarge = Bytes::gib(20);
constexpr Bytes kSmall = Bytes::gib(10);

Slice slice(uint32_t place, const char* name, unsigned multiprocessors, Bytes memory) {
  Slice made;
  made.id = mig_instance(0, place);
  made.uuid = "MIG-" + std::to_string(place);
  made.shape = {name, multiprocessors, memory};
  return made;
}

// A chain of two models, each of which nearly fills a small slice.
std::shared_ptr<const PipelinePackage> two_models(const std::string& slo = R"({"ms": 100})",
                                                  const std::string& isolation = "slices") {
  auto package = std::make_shared<PipelinePackage>();
  auto definition = pipeline::parse_pipeline(R"({"pipeline": 1, "handler": "app.App",
      "inputs": ["image"], "outputs": ["classify"], "slo": )" +
                                             slo + R"(, "isolation": ")" + isolation + R"(",
      "components": [{"name": "blur", "inputs": ["$image"]},
                     {"name": "classify", "inputs": ["blur"]}]})");
  package->definition = std::move(definition).value();
  auto profile = pipeline::parse_profile(R"({"profile": 1, "context_mb": 400, "start_ms": 300,
      "shapes": {"1g.10gb": {"multiprocessors": 14, "memory_mb": 10240},
                 "2g.20gb": {"multiprocessors": 28, "memory_mb": 20480}},
      "components": {
        "blur": {"weights_mb": 7000, "memory_mb": 8000, "output_bytes": 1000, "probability": 1,
                 "ms": {"1g.10gb": 20, "2g.20gb": 10}},
        "classify": {"weights_mb": 7000, "memory_mb": 8000, "output_bytes": 10, "probability": 1,
                     "ms": {"1g.10gb": 20, "2g.20gb": 10}}}})",
                                         package->definition.dag);
  package->profile = std::move(profile).value();
  return package;
}

// Sandboxes that are only notes of what was asked of them.
struct FakeLanes {
  struct Lane {
    FunctionSpec spec;
    DeviceId device;
    LaneExtras extras;
    std::vector<json> given;
    InvocationId current;
    bool stopped = false;
    int moved_out = 0;
    int moved_in = 0;
  };
  std::map<SandboxId, Lane> lanes;
  std::vector<SandboxId> order;
  std::vector<std::string> channels;
  std::vector<std::string> ended_channels;
  bool refuses_channels = false;

  LaneSandboxes calls() {
    LaneSandboxes made;
    made.next_id = [this] { return SandboxId(100 + order.size() + reserved++); };
    made.start = [this](SandboxId id, const FunctionSpec& spec, DeviceId device,
                        const LaneExtras& extras) {
      order.push_back(id);
      --reserved;
      lanes[id] = {spec, device, extras};
    };
    made.give = [this](SandboxId id, InvocationRequest& request, Duration) {
      lanes.at(id).given.push_back(json::parse(request.payload));
      lanes.at(id).current = request.id;
    };
    made.stop = [this](SandboxId id, Error, std::string) { lanes.at(id).stopped = true; };
    made.move_memory_out = [this](SandboxId id) { ++lanes.at(id).moved_out; };
    made.move_memory_in = [this](SandboxId id) { ++lanes.at(id).moved_in; };
    made.make_channel = [this](const std::string& path, Bytes) -> Result<void> {
      if (refuses_channels) return Error{ErrorCode::kResourceExhausted, "no memory"};
      channels.push_back(path);
      return {};
    };
    made.end_channel = [this](const std::string& path) { ended_channels.push_back(path); };
    return made;
  }

 private:
  size_t reserved = 0;
};

class PipelineHostTest : public testing::Test {
 protected:
  void begin(std::vector<Slice> slices) {
    setting.slices = std::move(slices);
    setting.context_memory = Bytes::mib(400);
    setting.channel_folder = folder.path() + "/channels";
    PipelineHost::Events events;
    events.on_end = [this](PipelineEnd end) {
      in_time[end.result.id] = end.in_time;
      ends[end.result.id] = std::move(end.result);
    };
    events.on_profile = [this](FunctionId, std::string profile) { profiles.push_back(profile); };
    host = std::make_unique<PipelineHost>(loop, log, lanes.calls(), setting,
                                          std::make_unique<slice_scheduling::SliceDispatcher>(
                                              slice_scheduling::make_slice_policy("fcfs").value(),
                                              slice_scheduling::SliceDispatcherOptions{}),
                                          std::move(events));
    spec.id = FunctionId(1);
    spec.name = {kDefaultTenant, "app"};
    spec.kind = FunctionKind::kPipeline;
    spec.timeout = seconds(5);
  }
  InvocationId submit(uint64_t number, const std::string& payload = R"({"n": 1})") {
    InvocationRequest request;
    request.id = {1, number};
    request.payload = payload;
    const auto begun = host->submit(request, spec);
    EXPECT_TRUE(begun.ok());
    return {1, number};
  }
  // The sandbox of a lane of the newest instance of so many lanes.
  SandboxId newest(size_t lane, size_t of) const {
    return lanes.order[lanes.order.size() - of + lane];
  }
  void all_ready(size_t of) {
    clock.advance(milliseconds(1));
    for (size_t lane = 0; lane < of; ++lane) host->lane_ready(newest(lane, of));
  }
  void answer(SandboxId lane, const std::string& payload, bool succeeded = true) {
    clock.advance(milliseconds(40));
    HandlerAnswer made;
    made.invocation = lanes.lanes.at(lane).current;
    made.succeeded = succeeded;
    made.payload = payload;
    if (!succeeded) made.error_type = "Runtime.Bad";
    host->lane_answered(lane, std::move(made));
  }
  void end_lane(SandboxId lane, const std::string& why = "Runtime exited with error: signal: 9",
                bool undelivered = false) {
    SandboxEnd end;
    end.undelivered = undelivered;
    end.sandbox = lane;
    end.error = {ErrorCode::kInternal, why};
    end.error_type = "Runtime.ExitError";
    end.payload = R"({"errorType": "Runtime.ExitError"})";
    host->lane_ended(std::move(end));
  }

  const std::string first_answer =
      R"({"components": {"blur": {"ms": 20, "ran": 1}}, "send_ms": 1})";
  const std::string last_answer =
      R"({"components": {"classify": {"ms": 20, "ran": 1}}, "results": [{"value": "cat"}]})";

  PipelineSetting setting;
  TemporaryFolder folder;
  NullLogSink log;
  FakeClock clock;
  loop::EventLoop loop{clock};
  FakeLanes lanes;
  FunctionSpec spec;
  std::map<InvocationId, InvocationResult> ends;
  std::map<InvocationId, std::optional<bool>> in_time;
  std::vector<std::string> profiles;
  std::unique_ptr<PipelineHost> host;
};

TEST_F(PipelineHostTest, CutsAFunctionOverTwoSmallSlicesAndHandsItsJobsThrough) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  ASSERT_TRUE(PipelineHost::check(setting, spec, *two_models()).ok());
  host->put(spec, two_models(), nullptr, "");
  const InvocationId id = submit(1);
  ASSERT_EQ(lanes.order.size(), 2u) << "one sandbox for each stage";
  EXPECT_EQ(lanes.channels.size(), 1u);
  const FakeLanes::Lane& first = lanes.lanes.at(newest(0, 2));
  EXPECT_EQ(first.spec.gpu.memory, kSmall - Bytes::mib(400));
  EXPECT_EQ(first.extras.environment.at("LAMBENT_STAGE"), "/opt/lambent/stage.json");
  EXPECT_NE(first.device, lanes.lanes.at(newest(1, 2)).device);
  clock.advance(milliseconds(1));
  host->lane_ready(newest(0, 2));
  EXPECT_TRUE(first.given.empty()) << "not before all are ready";
  host->lane_ready(newest(1, 2));
  ASSERT_EQ(first.given.size(), 1u);
  EXPECT_EQ(first.given[0]["events"], json::parse(R"([{"n": 1}])"));
  ASSERT_EQ(lanes.lanes.at(newest(1, 2)).given.size(), 1u) << "ahead of its data";
  EXPECT_EQ(lanes.lanes.at(newest(1, 2)).given[0]["job"], first.given[0]["job"]);

  answer(newest(0, 2), first_answer);
  EXPECT_TRUE(ends.empty());
  answer(newest(1, 2), last_answer);
  ASSERT_TRUE(ends.contains(id));
  EXPECT_EQ(ends[id].outcome, Outcome::kSucceeded);
  EXPECT_EQ(ends[id].payload, "\"cat\"");
  EXPECT_EQ(ends[id].start, StartClass::kCold);
  EXPECT_EQ(in_time[id], true);
  EXPECT_EQ(host->counts(spec.id).completed, 1u);
  EXPECT_EQ(host->counts(spec.id).mig_time, milliseconds(40));
  EXPECT_EQ(host->queued(), 0u);
  EXPECT_GT(host->turn(spec.id), Duration(0)) << "so it is known how long a queue takes";
}

TEST_F(PipelineHostTest, TellsWhereTheTimeOfARequestWent) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId one = submit(1);
  clock.advance(milliseconds(299));
  EXPECT_EQ(host->explain(one)->state, "queued");
  EXPECT_EQ(host->queued(), 1u);
  EXPECT_EQ(host->explain(one)->waits_now, slice_scheduling::SliceWait::kStarting);
  all_ready(2);  // a millisecond later
  for (uint64_t number = 2; number < 5; ++number) submit(number);
  const InvocationId two{1, 2}, last = submit(5);
  EXPECT_EQ(host->explain(two)->state, "running");
  EXPECT_EQ(host->explain(last)->waits_now, slice_scheduling::SliceWait::kOwnQueue);
  answer(newest(0, 2), R"({"components": {"blur": {"ms": 38, "ran": 1}}, "send_ms": 2})");
  answer(newest(1, 2), R"({"components": {"classify": {"ms": 10, "ran": 1}}, "wait_ms": 40,
      "receive_ms": 3, "results": [{"value": "cat"}]})");
  EXPECT_EQ(ends.at(one).phases.sandbox, milliseconds(300));
  EXPECT_EQ(ends.at(one).phases.queue, Duration(0));
  EXPECT_EQ(ends.at(one).phases.run, milliseconds(80));
  EXPECT_EQ(ends.at(one).wait_reason, "");
  const auto told = json::parse(*host->trace(kDefaultTenant, one));
  EXPECT_EQ(told["state"], "succeeded");
  EXPECT_EQ(told["took_ms"], 380);
  EXPECT_EQ(told["start"], "cold");
  EXPECT_EQ(told["waits"], json::parse(R"([{"reason": "starting", "ms": 300.0}])"));
  ASSERT_EQ(told["stages"].size(), 2u);
  EXPECT_EQ(told["stages"][0]["send_ms"], 2);
  EXPECT_EQ(told["stages"][0]["work_ms"], 38);
  EXPECT_EQ(told["stages"][1]["slice"], "0:1");
  EXPECT_EQ(told["stages"][1]["wait_ms"], 40) << "for the stage before";
  EXPECT_EQ(told["stages"][1]["queue_ms"], 0) << "it had nothing else to do";
  EXPECT_EQ(told["stages"][1]["receive_ms"], 3);
  EXPECT_EQ(told["stages"][1]["components"][0]["component"], "classify");
  for (int i = 0; i < 4; ++i) {
    answer(newest(0, 2), first_answer);
    answer(newest(1, 2), last_answer);
  }
  EXPECT_EQ(ends.at(two).start, StartClass::kWarm);
  EXPECT_EQ(ends.at(last).wait_reason, "own_queue");
  EXPECT_GT(ends.at(last).phases.queue, Duration(0));
  EXPECT_EQ(ends.at(last).phases.total(), milliseconds(400)) << "the phases are the latency";
  EXPECT_EQ(host->trace(TenantId(99), one).error().code, ErrorCode::kNotFound)
      << "it is nobody else's business";
  EXPECT_EQ(host->trace(kDefaultTenant, {7, 7}).error().code, ErrorCode::kNotFound);
}

TEST_F(PipelineHostTest, WhatWasLostWithAnInstanceIsToldAsSuch) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId id = submit(1);
  all_ready(1);
  clock.advance(milliseconds(70));
  end_lane(newest(0, 1));
  clock.advance(seconds(60));
  for (int i = 0; i < 100 && lanes.order.size() < 2; ++i) loop.run_once(milliseconds(0));
  ASSERT_EQ(lanes.order.size(), 2u);
  all_ready(1);
  answer(newest(0, 1), R"({"components": {}, "results": [{"value": 1}]})");
  ASSERT_TRUE(ends.contains(id));
  const auto told = json::parse(*host->trace(kDefaultTenant, id));
  EXPECT_EQ(told["lost_ms"], 70);
  EXPECT_EQ(told["run_ms"], 40);
  EXPECT_EQ(ends[id].phases.total(), milliseconds(60'000 + 70 + 40 + 2));
}

TEST_F(PipelineHostTest, ManyJobsAreUnderWayAtATimeInTheOrderTheyCame) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  submit(1);
  all_ready(2);
  submit(2);
  submit(3);
  FakeLanes::Lane& first = lanes.lanes.at(newest(0, 2));
  EXPECT_EQ(first.given.size(), 1u) << "one at a time in each stage";
  answer(newest(0, 2), first_answer);
  ASSERT_EQ(first.given.size(), 2u) << "while the first is in the second stage";
  EXPECT_EQ(lanes.lanes.at(newest(1, 2)).given.size(), 1u);
  answer(newest(1, 2), last_answer);
  EXPECT_EQ(ends.size(), 1u);
  for (int i = 0; i < 2; ++i) {
    answer(newest(0, 2), first_answer);
    answer(newest(1, 2), last_answer);
  }
  EXPECT_EQ(ends.size(), 3u);
}

TEST_F(PipelineHostTest, NothingIsLostWhenAStageDies) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId one = submit(1);
  all_ready(2);
  const InvocationId two = submit(2);
  const SandboxId first = newest(0, 2), last = newest(1, 2);
  answer(first, first_answer);
  end_lane(last);
  EXPECT_TRUE(lanes.lanes.at(first).stopped) << "the others go with it";
  EXPECT_EQ(lanes.ended_channels.size(), 1u) << "nobody waits there for ever";
  EXPECT_TRUE(ends.empty());
  end_lane(first, "stopped");
  clock.advance(seconds(60));  // whatever it waits before it tries again
  ASSERT_TRUE([&] {
    for (int i = 0; i < 100 && lanes.order.size() < 4; ++i) loop.run_once(milliseconds(0));
    return lanes.order.size() == 4;
  }());
  all_ready(2);
  for (int i = 0; i < 2; ++i) {
    answer(newest(0, 2), first_answer);
    answer(newest(1, 2), last_answer);
  }
  EXPECT_EQ(ends.at(one).outcome, Outcome::kSucceeded);
  EXPECT_EQ(ends.at(two).outcome, Outcome::kSucceeded);
}

TEST_F(PipelineHostTest, WhoWasNotWhereAStageDiedIsNotBlamed) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId guilty = submit(1);
  all_ready(2);
  const InvocationId bystander = submit(2);
  for (int death = 0; death < 3; ++death) {
    const SandboxId first = newest(0, 2), last = newest(1, 2);
    const size_t before = lanes.order.size();
    // The other stage sees its channel break before the end is heard of.
    answer(last,
           R"({"components": {}, "broken": "gone", "results": [{"error": {"errorType": "x"}}]})");
    EXPECT_FALSE(lanes.lanes.at(first).stopped);
    end_lane(first, "Runtime exited with error: exit status 7");
    end_lane(last, "stopped");
    clock.advance(seconds(60));
    for (int i = 0; i < 100 && lanes.order.size() == before; ++i) loop.run_once(milliseconds(0));
    ASSERT_EQ(lanes.order.size(), before + 2);
    all_ready(2);
  }
  ASSERT_TRUE(ends.contains(guilty));
  EXPECT_EQ(ends[guilty].outcome, Outcome::kFunctionError);
  EXPECT_THAT(ends[guilty].payload, HasSubstr("exit status 7 in stage 0 (blur)"));
  EXPECT_FALSE(ends.contains(bystander));
  answer(newest(0, 2), first_answer);
  answer(newest(1, 2), last_answer);
  EXPECT_EQ(ends.at(bystander).outcome, Outcome::kSucceeded);
}

TEST_F(PipelineHostTest, WhoWasGivenToAStageThatWasEndingIsNotBlamed) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId one = submit(1);
  all_ready(2);
  const InvocationId innocent = submit(2);
  for (int death = 0; death < 3; ++death) {
    EXPECT_TRUE(ends.empty());
    const SandboxId first = newest(0, 2), last = newest(1, 2);
    const size_t before = lanes.order.size();
    // With this answer its context is broken: the next job is one that it never sees.
    answer(first, first_answer);
    EXPECT_EQ(lanes.lanes.at(first).current, innocent);
    end_lane(first, "its CUDA context is broken (CUDA error 700)", true);
    end_lane(last, "stopped");
    clock.advance(seconds(60));
    for (int i = 0; i < 100 && lanes.order.size() == before; ++i) loop.run_once(milliseconds(0));
    ASSERT_EQ(lanes.order.size(), before + 2);
    all_ready(2);
  }
  ASSERT_TRUE(ends.contains(one)) << "it broke the stage each time";
  EXPECT_EQ(ends[one].outcome, Outcome::kFunctionError);
  EXPECT_THAT(ends[one].payload, HasSubstr("CUDA error 700"));
  answer(newest(0, 2), first_answer);
  answer(newest(1, 2), last_answer);
  ASSERT_TRUE(ends.contains(innocent));
  EXPECT_EQ(ends[innocent].outcome, Outcome::kSucceeded);
}

TEST_F(PipelineHostTest, AStageThatEndsAfterItsAnswerIsNotBlamedForWhatIsOver) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId over = submit(1);
  all_ready(1);
  answer(newest(0, 1), R"({"components": {}, "results": [{"value": "cat"}]})");
  EXPECT_EQ(ends.at(over).outcome, Outcome::kSucceeded);
  const InvocationId next = submit(2);
  for (int death = 0; death < 4; ++death) {
    const size_t before = lanes.order.size();
    end_lane(newest(0, 1), "its CUDA context is broken (CUDA error 700)", true);
    clock.advance(seconds(60));
    for (int i = 0; i < 100 && lanes.order.size() == before; ++i) loop.run_once(milliseconds(0));
    ASSERT_EQ(lanes.order.size(), before + 1);
    all_ready(1);
  }
  answer(newest(0, 1), R"({"components": {}, "results": [{"value": "cat"}]})");
  EXPECT_EQ(ends.at(next).outcome, Outcome::kSucceeded);
}

TEST_F(PipelineHostTest, AFunctionThatCannotStartFailsWithItsOwnWords) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId id = submit(1);
  for (int i = 0; i < 20 && ends.empty(); ++i) {
    const size_t before = lanes.order.size();
    end_lane(lanes.order.back(), "Unable to import module 'app'");
    clock.advance(seconds(60));
    for (int turn = 0; turn < 100 && lanes.order.size() == before; ++turn) {
      loop.run_once(milliseconds(0));
      if (!ends.empty()) break;
    }
  }
  ASSERT_TRUE(ends.contains(id));
  EXPECT_EQ(ends[id].outcome, Outcome::kFunctionError);
  EXPECT_EQ(ends[id].error_type, "Runtime.ExitError");
  EXPECT_EQ(in_time[id], false);
}

TEST_F(PipelineHostTest, AJobThatTakesTooLongEndsItsInstanceAndAnswers) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId id = submit(1);
  all_ready(1);
  clock.advance(seconds(6));
  for (int i = 0; i < 100 && ends.empty(); ++i) loop.run_once(milliseconds(0));
  ASSERT_TRUE(ends.contains(id));
  EXPECT_EQ(ends[id].outcome, Outcome::kFunctionError);
  EXPECT_EQ(ends[id].error_type, "Sandbox.Timeout");
  EXPECT_TRUE(lanes.lanes.at(lanes.order.back()).stopped);
}

TEST_F(PipelineHostTest, ErrorsOfTheFunctionAndOfItsStagesAreAnswers) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId one = submit(1);
  all_ready(1);
  answer(newest(0, 1),
         R"({"components": {}, "results": [{"error": {"errorType": "ValueError"}}]})");
  EXPECT_EQ(ends.at(one).outcome, Outcome::kFunctionError);
  EXPECT_EQ(ends.at(one).error_type, "ValueError");
  const InvocationId two = submit(2);
  answer(newest(0, 1), R"({"errorType": "Runtime.Bad"})", false);
  EXPECT_EQ(ends.at(two).error_type, "Runtime.Bad");
  const InvocationId three = submit(3);
  answer(newest(0, 1), "what?");
  EXPECT_EQ(ends.at(three).error_type, "Runtime.InvalidResponse");
}

TEST_F(PipelineHostTest, SaysWhatWouldHaveToBeThere) {
  begin({});
  EXPECT_EQ(PipelineHost::check(setting, spec, *two_models()).error().code,
            ErrorCode::kFailedPrecondition);
  begin({slice(0, "1g.5gb", 14, Bytes::gib(5))});
  const auto refused = PipelineHost::check(setting, spec, *two_models());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("blur"));
}

TEST_F(PipelineHostTest, ChoosesBetweenSlicesAndASharedDeviceByHowBusyItIs) {
  setting.shared.shape = {"A100", 98, Bytes::gib(80)};
  setting.shared.longest_run = seconds(60);
  spec.gpu.memory = Bytes::gib(18);
  begin({slice(0, "2g.20gb", 28, kLarge)});
  using pipeline::Isolation;
  host->put(spec, two_models(), nullptr, "");
  EXPECT_EQ(host->isolation_of_next(spec.id), Isolation::kSlices) << "as its author has it";

  host->put(spec, two_models(R"({"ms": 100})", "auto"), nullptr, "");
  const auto told = [&] { return json::parse(*host->describe(spec.id))["isolation"]; };
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
  EXPECT_EQ(host->counts(spec.id).completed, 2u);
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
  EXPECT_THAT(*host->describe(spec.id), HasSubstr("the shared device has 6.4 GiB"));
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

TEST_F(PipelineHostTest, LearnsHowLongComponentsReallyTake) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(R"({"scale": 2})"), nullptr, "");
  const auto slo = [&] { return json::parse(*host->describe(spec.id))["slo"]["ms"].get<double>(); };
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
  const auto told = json::parse(*host->describe(spec.id));
  EXPECT_EQ(told["instances"][0]["stages"][0][0]["components"], json({"blur", "classify"}));
  EXPECT_EQ(told["instances"][0]["state"], "loaded");
}

TEST_F(PipelineHostTest, MeasuresAFunctionOnASliceOfEachShape) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "2g.20gb", 28, kLarge),
         slice(2, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  std::optional<Result<std::string>> told;
  host->measure(spec.id, R"({"n": 1})", 3, [&](Result<std::string> result) { told = result; });
  ASSERT_EQ(lanes.order.size(), 1u) << "it does not fit the small slice in one piece";
  EXPECT_FALSE(json::parse(*host->describe(spec.id))["slices"][1]["free"].get<bool>());
  std::optional<Error> second;
  host->measure(spec.id, "{}", 3, [&](Result<std::string> result) { second = result.error(); });
  EXPECT_EQ(second->code, ErrorCode::kResourceExhausted);
  all_ready(1);
  for (const int ms : {500, 30, 40, 50}) {  // the first one warms up
    answer(newest(0, 1), R"({"components": {"blur": {"ms": )" + std::to_string(ms) +
                             R"(, "ran": 1, "memory": 8388608, "weights": 1048576, "output": 64}},
                             "results": [{"value": 1}]})");
  }
  EXPECT_TRUE(lanes.lanes.at(newest(0, 1)).stopped);
  end_lane(newest(0, 1), "stopped");
  for (int i = 0; i < 100 && !told; ++i) loop.run_once(milliseconds(0));
  ASSERT_TRUE(told.has_value());
  ASSERT_TRUE(told->ok()) << told->error().message;
  const auto answer = json::parse(**told);
  EXPECT_EQ(answer["measured"], json({"2g.20gb"}));
  EXPECT_THAT(answer["skipped"][0]["why"], HasSubstr("in one piece"));
  EXPECT_EQ(answer["profile"]["components"]["blur"]["ms"]["2g.20gb"], 40);
  EXPECT_EQ(answer["profile"]["components"]["blur"]["memory_mb"], 8);
  EXPECT_TRUE(json::parse(*host->describe(spec.id))["slices"][1]["free"].get<bool>());
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
  end_lane(newest(0, 1), "stopped");
  for (int i = 0; i < 100 && !told; ++i) loop.run_once(milliseconds(0));
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(told->error().message, HasSubstr("KeyError"));
  submit(1);
  told.reset();
  host->measure(spec.id, "{}", 3, note);
  EXPECT_FALSE(told.has_value()) << "whoever is idle on a slice makes room";
  EXPECT_TRUE(lanes.lanes.at(lanes.order.back()).stopped);
  host.reset();
  EXPECT_EQ(told->error().code, ErrorCode::kUnavailable) << "everybody gets an answer";
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
    const SandboxId lane = lanes.order.back();
    EXPECT_TRUE(lanes.lanes.at(lane).stopped);
    end_lane(lane, "stopped");
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
  const size_t before = lanes.order.size();
  EXPECT_EQ(before, 2u) << "a lost slice does not come back with the end of a measurement";
  EXPECT_TRUE(ends.empty()) << "who needs it waits for it";
  host->device_reading(mig_instance(0, 0), false);
  EXPECT_EQ(lanes.order.size(), before + 1);
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
  end_lane(lanes.order.back(), "stopped");
  for (int i = 0; i < 100 && !told; ++i) loop.run_once(milliseconds(0));
  EXPECT_EQ(told->error().code, ErrorCode::kNotFound);
  told.reset();
  host->put(spec, two_models(), nullptr, "");
  host->measure(spec.id, "{}", 3, note);
  host->drain();
  EXPECT_TRUE(lanes.lanes.at(lanes.order.back()).stopped);
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
  const auto told = json::parse(*host->describe(spec.id));
  EXPECT_EQ(told["profile"]["components"]["classify"]["probability"], 1);
}

TEST_F(PipelineHostTest, ASliceThatIsLostTakesItsInstanceAlong) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  submit(1);
  all_ready(2);
  const SandboxId first = newest(0, 2), last = newest(1, 2);
  host->device_reading(mig_instance(0, 1), true);
  EXPECT_TRUE(lanes.lanes.at(first).stopped);
  EXPECT_TRUE(lanes.lanes.at(last).stopped);
  end_lane(first);
  end_lane(last);
  EXPECT_TRUE(host->status()[1].lost);
  EXPECT_TRUE(ends.empty()) << "its requests wait for it to come back";
  host->device_reading(mig_instance(0, 1), false);
  EXPECT_FALSE(host->status()[1].lost);
}

TEST_F(PipelineHostTest, ChannelsThatCannotBeMadeFailTheStart) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  lanes.refuses_channels = true;
  host->put(spec, two_models(), nullptr, "");
  const InvocationId id = submit(1);
  for (int i = 0; i < 2'000 && ends.empty(); ++i) {
    clock.advance(seconds(1));
    loop.run_once(milliseconds(0));
  }
  ASSERT_TRUE(ends.contains(id));
  EXPECT_EQ(ends[id].error->message, "no memory");
  EXPECT_TRUE(lanes.order.empty());
}

TEST_F(PipelineHostTest, WhatIsRemovedOrDrainedIsAnswered) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId one = submit(1);
  host->remove(spec.id);
  EXPECT_EQ(ends.at(one).error->code, ErrorCode::kNotFound);
  EXPECT_FALSE(host->describe(spec.id).ok());
  EXPECT_EQ(host->live(), 0u);
}

}  // namespace
}  // namespace lambent::worker
