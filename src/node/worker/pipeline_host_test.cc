#include "node/worker/pipeline_host.h"

#include <gmock/gmock.h>

#include <deque>

#include "core/domain/stopping.h"
#include "node/worker/testing/pipeline_testing.h"

namespace lambent::worker {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST_F(PipelineHostTest, CutsAFunctionOverTwoSmallSlicesAndHandsItsJobsThrough) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  ASSERT_TRUE(PipelineHost::check(setting, spec, *two_models()).ok());
  host->put(spec, two_models(), nullptr, "");
  const InvocationId id = submit(1);
  ASSERT_EQ(stage_processes.order.size(), 2u) << "one sandbox for each stage";
  EXPECT_EQ(stage_processes.channels.size(), 1u);
  const FakeStageProcesses::StageProcess& first = stage_processes.stage_processes.at(newest(0, 2));
  EXPECT_EQ(first.spec.gpu.memory, kSmall - Bytes::mib(400));
  EXPECT_EQ(first.extras.environment.at("LAMBENT_STAGE"), "/opt/lambent/stage.json");
  EXPECT_NE(first.device, stage_processes.stage_processes.at(newest(1, 2)).device);
  clock.advance(milliseconds(1));
  host->stage_processes().on_ready(newest(0, 2), {}, {});
  EXPECT_TRUE(first.given.empty()) << "not before all are ready";
  host->stage_processes().on_ready(newest(1, 2), {}, {});
  ASSERT_EQ(first.given.size(), 1u);
  EXPECT_EQ(first.given[0]["events"], json::parse(R"([{"n": 1}])"));
  ASSERT_EQ(stage_processes.stage_processes.at(newest(1, 2)).given.size(), 1u)
      << "ahead of its data";
  EXPECT_EQ(stage_processes.stage_processes.at(newest(1, 2)).given[0]["job"],
            first.given[0]["job"]);

  answer(newest(0, 2), first_answer);
  EXPECT_TRUE(ends.empty());
  answer(newest(1, 2), last_answer);
  ASSERT_TRUE(ends.contains(id));
  EXPECT_EQ(ends[id].outcome, Outcome::kSucceeded);
  EXPECT_EQ(ends[id].payload, "\"cat\"");
  EXPECT_EQ(ends[id].start, StartClass::kCold);
  EXPECT_EQ(in_time[id], true);
  EXPECT_EQ(host->status().counts(spec.id).completed, 1u);
  EXPECT_EQ(host->status().counts(spec.id).mig_time, milliseconds(40));
  const std::map<uint32_t, Duration> one_after_the_other{{0, milliseconds(40)}};
  EXPECT_EQ(host->status().gpu_time(), one_after_the_other);
  EXPECT_EQ(host->status().queued(), 0u);
  EXPECT_GT(host->status().turn(spec.id), Duration(0)) << "so it is known how long a queue takes";
}

TEST_F(PipelineHostTest, TellsWhereTheTimeOfARequestWent) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId one = submit(1);
  clock.advance(milliseconds(299));
  EXPECT_EQ(host->explain(one)->state, "queued");
  EXPECT_EQ(host->status().queued(), 1u);
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
      << "it concerns no other request";
  EXPECT_EQ(host->trace(kDefaultTenant, {7, 7}).error().code, ErrorCode::kNotFound);
}

TEST_F(PipelineHostTest, WhatWasLostWithAnInstanceIsToldAsSuch) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId id = submit(1);
  all_ready(1);
  clock.advance(milliseconds(70));
  end_stage_process(newest(0, 1));
  clock.advance(seconds(60));
  for (int i = 0; i < 100 && stage_processes.order.size() < 2; ++i) loop.run_once(milliseconds(0));
  ASSERT_EQ(stage_processes.order.size(), 2u);
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
  FakeStageProcesses::StageProcess& first = stage_processes.stage_processes.at(newest(0, 2));
  EXPECT_EQ(first.extras.in_flight, 2u);
  EXPECT_EQ(first.given.size(), 2u) << "one at work, and one whose input comes meanwhile";
  answer(newest(0, 2), first_answer);
  ASSERT_EQ(first.given.size(), 3u) << "while the first is in the second stage";
  EXPECT_EQ(stage_processes.stage_processes.at(newest(1, 2)).given.size(), 2u);
  answer(newest(1, 2), last_answer);
  EXPECT_EQ(ends.size(), 1u);
  for (int i = 0; i < 2; ++i) {
    answer(newest(0, 2), first_answer);
    answer(newest(1, 2), last_answer);
  }
  EXPECT_EQ(ends.size(), 3u);
}

// One instance of two stage processes with replicas, that gets all there is, in jobs of these
// sizes.
struct WithReplicas : slice_scheduling::SlicePolicy {
  explicit WithReplicas(std::vector<size_t> each, std::deque<size_t> sizes = {})
      : replicas(std::move(each)), job_sizes(std::move(sizes)) {}
  std::string_view name() const override { return "replicas"; }
  void decide(const slice_scheduling::SliceWorld& world, Instant,
              std::vector<slice_scheduling::Decision>& decisions) override {
    for (const auto& [id, function] : world.functions) {
      if (function.queue.empty()) continue;
      if (function.instances.empty()) {
        pipeline::Placement placement{{{{{{{0}}}}, {{{{1}}}}}}};
        for (const auto& [slice, state] : world.slices) placement.slices.push_back(slice);
        placement.latency = placement.bottleneck = milliseconds(40);
        placement.replicas = replicas;
        decisions.push_back(slice_scheduling::Start{id, placement});
      } else if (world.instances.at(function.instances.front()).is_open()) {
        const size_t size = job_sizes.empty() ? 1 : job_sizes.front();
        if (function.queue.size() < size) continue;
        if (!job_sizes.empty()) job_sizes.pop_front();
        slice_scheduling::Assign assign{{}, function.instances.front()};
        for (size_t at = 0; at < size; ++at) assign.requests.push_back(function.queue[at].id);
        decisions.push_back(std::move(assign));
      }
    }
  }
  std::vector<size_t> replicas;
  std::deque<size_t> job_sizes;
};

TEST_F(PipelineHostTest, ReplicasOfAStageProcessTakeJobsInTurn) {
  policy = std::make_unique<WithReplicas>(std::vector<size_t>{2, 1});
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall),
         slice(2, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  std::vector<InvocationId> ids;
  for (uint64_t number = 1; number <= 3; ++number) ids.push_back(submit(number));
  ASSERT_EQ(stage_processes.order.size(), 3u);
  EXPECT_EQ(stage_processes.channels.size(), 2u) << "one from each replica";
  all_ready(3);
  const SandboxId left = newest(0, 3), right = newest(1, 3), last = newest(2, 3);
  EXPECT_EQ(stage_processes.stage_processes.at(left).extras.binds.size(), 2u)
      << "its description and its channel";
  EXPECT_EQ(stage_processes.stage_processes.at(last).extras.binds.size(), 3u);
  ASSERT_EQ(stage_processes.stage_processes.at(left).given.size(), 2u);
  ASSERT_EQ(stage_processes.stage_processes.at(right).given.size(), 1u)
      << "the second, while the first is at work";
  EXPECT_EQ(stage_processes.stage_processes.at(left).given[0]["turn"], 0);
  EXPECT_EQ(stage_processes.stage_processes.at(right).given[0]["turn"], 1);
  EXPECT_EQ(stage_processes.stage_processes.at(last).given[0]["turn"], 0);
  answer(right, first_answer);
  answer(left, first_answer);
  EXPECT_EQ(stage_processes.stage_processes.at(left).given[1]["turn"], 2);
  EXPECT_EQ(stage_processes.stage_processes.at(right).given.size(), 1u)
      << "the third is not its turn";
  answer(last, last_answer);
  EXPECT_TRUE(ends.contains(ids[0])) << "two stage processes have had it, the third never will";
  const auto told = json::parse(*host->trace(kDefaultTenant, ids[0]));
  ASSERT_EQ(told["stages"].size(), 2u);
  EXPECT_EQ(told["stages"][1]["slice"], "0:2");
  answer(last, last_answer);
  answer(left, first_answer);
  answer(last, last_answer);
  EXPECT_EQ(ends.size(), 3u);
  for (const InvocationId id : ids) EXPECT_EQ(ends[id].outcome, Outcome::kSucceeded);
  const auto instances = json::parse(host->status().describe(spec.id).value())["instances"];
  ASSERT_EQ(instances[0]["stages"][0].size(), 2u);
  EXPECT_EQ(instances[0]["stages"][0][1]["replica"], 1);
  EXPECT_FALSE(instances[0]["stages"][1][0].contains("replica"));
  const auto slices = json::parse(host->status().slices_json(kDefaultTenant))["slices"];
  EXPECT_EQ(slices[0]["holders"][0]["replica"], 0);
  EXPECT_EQ(slices[1]["holders"][0]["replica"], 1);
  EXPECT_EQ(slices[1]["holders"][0]["stage"], 0);
  EXPECT_FALSE(slices[2]["holders"][0].contains("replica"));
}

TEST_F(PipelineHostTest, AReplicaWaitsForAllThatTheStageProcessBeforeHasToDoFirst) {
  policy = std::make_unique<WithReplicas>(std::vector<size_t>{1, 3}, std::deque<size_t>{2, 3, 1});
  begin({slice(0, "2g.20gb", 28, kLarge), slice(1, "2g.20gb", 28, kLarge),
         slice(2, "2g.20gb", 28, kLarge), slice(3, "2g.20gb", 28, kLarge)});
  auto package = std::make_shared<PipelinePackage>(*two_models());
  package->definition.most_batch = 4;
  host->put(spec, package, nullptr, "");
  for (uint64_t number = 1; number <= 6; ++number) submit(number);
  all_ready(4);
  EXPECT_EQ(stage_processes.channel_slots, (std::vector<uint32_t>{1, 1, 1}));
  const SandboxId first = newest(0, 4);
  std::vector<SandboxId> others;
  for (size_t stage_process = 1; stage_process < 4; ++stage_process) {
    others.push_back(newest(stage_process, 4));
    ASSERT_EQ(stage_processes.stage_processes.at(others.back()).given.size(), 1u)
        << "ahead of its data: stage process " << stage_process;
  }
  // Of the spec's 5 s: a job's own requests, and in the stage process before those of all jobs up
  // to it. Of the second, which has to wait for the first where it is, too.
  EXPECT_EQ(stage_processes.stage_processes.at(first).timeout, seconds(5) * (2 + 3));
  EXPECT_EQ(stage_processes.stage_processes.at(others[0]).timeout, seconds(5) * (2 + 2));
  EXPECT_EQ(stage_processes.stage_processes.at(others[1]).timeout, seconds(5) * (2 + 3 + 3));
  EXPECT_EQ(stage_processes.stage_processes.at(others[2]).timeout, seconds(5) * (2 + 3 + 1 + 1));
  // None has taken too long: 9 s for two requests, 14 for three.
  const auto pass = [&](Duration time) {
    clock.advance(time);
    for (int i = 0; i < 10; ++i) loop.run_once(milliseconds(0));
  };
  pass(seconds(9));
  answer(first, first_answer);
  const std::string two = R"({"components": {}, "results": [{"value": 1}, {"value": 1}]})";
  answer(others[0], two);
  pass(seconds(14));
  EXPECT_FALSE(stage_processes.stage_processes.at(first).stopped);
  answer(first, first_answer);
  answer(others[1], R"({"components": {}, "results": [{"value": 1}, {"value": 1}, {"value": 1}]})");
  answer(first, first_answer);
  answer(others[2], R"({"components": {}, "results": [{"value": 1}]})");
  ASSERT_EQ(ends.size(), 6u);
  for (const auto& [id, end] : ends) EXPECT_EQ(end.outcome, Outcome::kSucceeded);
}

TEST_F(PipelineHostTest, AnErrorNamesTheReplicaAndItsSlice) {
  policy = std::make_unique<WithReplicas>(std::vector<size_t>{1, 2});
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall),
         slice(2, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  for (uint64_t number = 1; number <= 2; ++number) submit(number);
  all_ready(3);
  answer(newest(0, 3), first_answer);
  answer(newest(1, 3), last_answer);
  answer(newest(0, 3), first_answer);
  clock.advance(seconds(16));  // it may wait for two requests, and has one of its own
  for (int i = 0; i < 100 && ends.size() < 2; ++i) loop.run_once(milliseconds(0));
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_THAT((ends.at({1, 2}).payload),
              HasSubstr("5000 ms in stage 1 (classify), replica 1 on slice 0:2"));
}

TEST_F(PipelineHostTest, WhatADeadReplicaHadIsServedAgain) {
  policy = std::make_unique<WithReplicas>(std::vector<size_t>{2, 1});
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall),
         slice(2, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  std::vector<InvocationId> ids;
  for (uint64_t number = 1; number <= 2; ++number) ids.push_back(submit(number));
  all_ready(3);
  const SandboxId left = newest(0, 3), right = newest(1, 3), last = newest(2, 3);
  end_stage_process(right);
  EXPECT_TRUE(stage_processes.stage_processes.at(left).stopped) << "the others go with it";
  EXPECT_TRUE(stage_processes.stage_processes.at(last).stopped);
  end_stage_process(left);
  end_stage_process(last);
  EXPECT_TRUE(ends.empty());
  ASSERT_EQ(stage_processes.order.size(), 6u) << "and all start again";
  all_ready(3);
  answer(newest(0, 3), first_answer);
  answer(newest(2, 3), last_answer);
  answer(newest(1, 3), first_answer);
  answer(newest(2, 3), last_answer);
  EXPECT_EQ(ends.size(), 2u);
}

TEST_F(PipelineHostTest, NothingIsLostWhenAStageDies) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId one = submit(1);
  all_ready(2);
  const InvocationId two = submit(2);
  const SandboxId first = newest(0, 2), last = newest(1, 2);
  answer(first, first_answer);
  end_stage_process(last);
  EXPECT_TRUE(stage_processes.stage_processes.at(first).stopped) << "the others go with it";
  EXPECT_EQ(stage_processes.ended_channels.size(), 1u) << "no request waits there for ever";
  EXPECT_TRUE(ends.empty());
  end_stage_process(first, "stopped");
  clock.advance(seconds(60));  // whatever it waits before it tries again
  ASSERT_TRUE([&] {
    for (int i = 0; i < 100 && stage_processes.order.size() < 4; ++i)
      loop.run_once(milliseconds(0));
    return stage_processes.order.size() == 4;
  }());
  all_ready(2);
  for (int i = 0; i < 2; ++i) {
    answer(newest(0, 2), first_answer);
    answer(newest(1, 2), last_answer);
  }
  EXPECT_EQ(ends.at(one).outcome, Outcome::kSucceeded);
  EXPECT_EQ(ends.at(two).outcome, Outcome::kSucceeded);
}

TEST_F(PipelineHostTest, ARequestThatEndsItsStageIsAnsweredAtOnceAndTheNextOneIsServed) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId guilty = submit(1);
  all_ready(2);
  const SandboxId first = newest(0, 2), last = newest(1, 2);
  answer(first, first_answer);
  const InvocationId next = submit(2);
  end_stage_process(last, "Runtime exited with error: exit status 3", 1);
  ASSERT_TRUE(ends.contains(guilty)) << "though the other stage is still there";
  EXPECT_EQ(ends[guilty].outcome, Outcome::kFunctionError);
  EXPECT_EQ(ends[guilty].error_type, "Runtime.ExitError");
  EXPECT_THAT(ends[guilty].payload, HasSubstr("exit status 3 in stage 1 (classify) on slice 0:"));
  EXPECT_TRUE(stage_processes.stage_processes.at(first).stopped);
  end_stage_process(first, "stopped");
  clock.advance(seconds(60));
  for (int i = 0; i < 100 && stage_processes.order.size() < 4; ++i) loop.run_once(milliseconds(0));
  ASSERT_EQ(stage_processes.order.size(), 4u);
  all_ready(2);
  EXPECT_EQ(stage_processes.stage_processes.at(newest(0, 2)).given.size(), 1u) << "it is over";
  answer(newest(0, 2), first_answer);
  answer(newest(1, 2), last_answer);
  EXPECT_EQ(ends.at(next).outcome, Outcome::kSucceeded);
}

TEST_F(PipelineHostTest, WhatOthersKillBeginsAgainAndFailsAtTheThirdTime) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId id = submit(1);
  for (size_t death = 1; death <= 3; ++death) {
    all_ready(2);
    const SandboxId first = newest(0, 2), last = newest(1, 2);
    EXPECT_FALSE(ends.contains(id)) << "death " << death;
    end_stage_process(first, "Runtime exited with error: signal: 9");
    end_stage_process(last, "stopped");
    clock.advance(seconds(60));
    for (int i = 0; i < 100 && stage_processes.order.size() == 2 * death; ++i)
      loop.run_once(milliseconds(0));
  }
  EXPECT_EQ(ends.at(id).outcome, Outcome::kFunctionError);
  EXPECT_EQ(stage_processes.order.size(), 6u);
}

TEST_F(PipelineHostTest, WhoWasNotWhereAStageDiedIsNotBlamed) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId blamed = submit(1);
  all_ready(2);
  const InvocationId bystander = submit(2);
  for (int death = 0; death < 2; ++death) {
    const SandboxId first = newest(0, 2), last = newest(1, 2);
    const size_t before = stage_processes.order.size();
    // The other stage sees its channel break before the end is heard of.
    answer(last,
           R"({"components": {}, "broken": "gone", "results": [{"error": {"errorType": "x"}}]})");
    EXPECT_FALSE(stage_processes.stage_processes.at(first).stopped);
    end_stage_process(first, "Runtime exited with error: exit status 7");
    EXPECT_EQ(ends.contains(blamed), death == 1) << "no other was there: it is told at once";
    end_stage_process(last, "stopped");
    clock.advance(seconds(60));
    for (int i = 0; i < 100 && stage_processes.order.size() == before; ++i)
      loop.run_once(milliseconds(0));
    ASSERT_EQ(stage_processes.order.size(), before + 2);
    all_ready(2);
  }
  ASSERT_TRUE(ends.contains(blamed));
  EXPECT_EQ(ends[blamed].outcome, Outcome::kFunctionError);
  EXPECT_THAT(ends[blamed].payload, HasSubstr("exit status 7 in stage 0 (blur) on slice 0:"));
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
    const size_t before = stage_processes.order.size();
    // With this answer its context is broken: the next job is one that it never sees.
    answer(first, first_answer);
    EXPECT_EQ(stage_processes.stage_processes.at(first).held.front(), innocent);
    end_stage_process(first, "its CUDA context is broken (CUDA error 700)", 1);
    end_stage_process(last, "stopped");
    clock.advance(seconds(60));
    for (int i = 0; i < 100 && stage_processes.order.size() == before; ++i)
      loop.run_once(milliseconds(0));
    ASSERT_EQ(stage_processes.order.size(), before + 2);
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
    const size_t before = stage_processes.order.size();
    end_stage_process(newest(0, 1), "its CUDA context is broken (CUDA error 700)", 1);
    clock.advance(seconds(60));
    for (int i = 0; i < 100 && stage_processes.order.size() == before; ++i)
      loop.run_once(milliseconds(0));
    ASSERT_EQ(stage_processes.order.size(), before + 1);
    all_ready(1);
  }
  answer(newest(0, 1), R"({"components": {}, "results": [{"value": "cat"}]})");
  EXPECT_EQ(ends.at(next).outcome, Outcome::kSucceeded);
}

TEST_F(PipelineHostTest, WhoWasBesideTheOneThatKillsAStageIsThereNoMore) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId blamed = submit(1);
  all_ready(2);
  const InvocationId beside = submit(2);
  for (int death = 0; death < 2; ++death) {
    const SandboxId first = newest(0, 2), last = newest(1, 2);
    const size_t before = stage_processes.order.size();
    EXPECT_EQ(stage_processes.stage_processes.at(first).held.size(), death == 0 ? 2u : 1u)
        << "which of them did it is not known, the next time it is";
    end_stage_process(first, "Runtime exited with error: signal: 11");
    EXPECT_EQ(ends.contains(blamed), death == 1) << "no other was there: it is told at once";
    end_stage_process(last, "stopped");
    clock.advance(seconds(60));
    for (int i = 0; i < 100 && stage_processes.order.size() == before; ++i)
      loop.run_once(milliseconds(0));
    ASSERT_EQ(stage_processes.order.size(), before + 2);
    all_ready(2);
  }
  EXPECT_EQ(ends.at(blamed).outcome, Outcome::kFunctionError);
  EXPECT_FALSE(ends.contains(beside));
  answer(newest(0, 2), first_answer);
  answer(newest(1, 2), last_answer);
  EXPECT_EQ(ends.at(beside).outcome, Outcome::kSucceeded);
}

TEST_F(PipelineHostTest, TheContextThatAJobBrokeIsItsFaultThoughAnotherWasInFlight) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId blamed = submit(1);
  all_ready(2);
  const InvocationId beside = submit(2);
  for (int death = 0; death < 3; ++death) {
    const SandboxId first = newest(0, 2), last = newest(1, 2);
    const size_t before = stage_processes.order.size();
    answer(first, first_answer);
    // From the second time on the other one comes when the stage is on its way out.
    end_stage_process(first, "its CUDA context is broken (CUDA error 700)", death == 0 ? 0 : 1);
    end_stage_process(last, "stopped");
    clock.advance(seconds(60));
    for (int i = 0; i < 100 && stage_processes.order.size() == before; ++i)
      loop.run_once(milliseconds(0));
    ASSERT_EQ(stage_processes.order.size(), before + 2);
    all_ready(2);
  }
  EXPECT_EQ(ends.at(blamed).outcome, Outcome::kFunctionError);
  EXPECT_THAT(ends[blamed].payload, HasSubstr("CUDA error 700"));
  EXPECT_FALSE(ends.contains(beside)) << "it was beside the one to blame once";
}

TEST_F(PipelineHostTest, WhatIsInFlightHasItsTimeFromWhenTheOneBeforeIsDone) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  submit(1);
  all_ready(2);
  const InvocationId late = submit(2);
  const SandboxId first = newest(0, 2), last = newest(1, 2);
  const auto pass = [&](Duration time) {
    clock.advance(time);
    for (int i = 0; i < 10; ++i) loop.run_once(milliseconds(0));
  };
  pass(milliseconds(4900));
  answer(first, first_answer);
  answer(last, last_answer);
  pass(milliseconds(4900));
  EXPECT_FALSE(stage_processes.stage_processes.at(first).stopped) << "its 5 s are not over";
  pass(milliseconds(200));
  EXPECT_TRUE(stage_processes.stage_processes.at(first).stopped);
  EXPECT_EQ(ends.at(late).error_type, "Sandbox.Timeout");
}

TEST_F(PipelineHostTest, AFunctionThatCannotStartFailsWithItsOwnWords) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId id = submit(1);
  for (int i = 0; i < 20 && ends.empty(); ++i) {
    const size_t before = stage_processes.order.size();
    end_stage_process(stage_processes.order.back(), "Unable to import module 'app'");
    clock.advance(seconds(60));
    for (int turn = 0; turn < 100 && stage_processes.order.size() == before; ++turn) {
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
  EXPECT_TRUE(stage_processes.stage_processes.at(stage_processes.order.back()).stopped);
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

TEST_F(PipelineHostTest, ServesAFunctionThatWouldFitIfAllSlicesWereFree) {
  begin({slice(0, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  EXPECT_FALSE(host->status().serves(spec.id)) << "there is none for its second stage";
  EXPECT_TRUE(host->status().served().empty());
  EXPECT_EQ(ends.at(submit(1)).outcome, Outcome::kRejected);

  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  submit(2);
  EXPECT_TRUE(host->status().serves(spec.id)) << "also while its slices are in use";
  EXPECT_EQ(host->status().served(), std::vector<FunctionName>{spec.name});
  host->remove(spec.id);
  EXPECT_FALSE(host->status().serves(spec.id));

  // Without a slice that it takes it is served once that is back.
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  host->device_reading(mig_instance(0, 1), true);
  EXPECT_FALSE(host->status().serves(spec.id));
  EXPECT_TRUE(host->status().served().empty());
  EXPECT_EQ(host->status().served_later(), std::vector<FunctionName>{spec.name});
  host->device_reading(mig_instance(0, 1), false);
  EXPECT_TRUE(host->status().serves(spec.id));
  EXPECT_TRUE(host->status().served_later().empty());

  // As a node of a cluster keeps it that could not plan it.
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), PipelineFunctions::unplanned(spec.id, *two_models()), "");
  EXPECT_FALSE(host->status().serves(spec.id));
  EXPECT_EQ(ends.at(submit(3)).outcome, Outcome::kRejected);
}

TEST_F(PipelineHostTest, ASliceThatIsLostTakesItsInstanceAlong) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  host->put(spec, two_models(), nullptr, "");
  submit(1);
  all_ready(2);
  const SandboxId first = newest(0, 2), last = newest(1, 2);
  host->device_reading(mig_instance(0, 1), true);
  EXPECT_TRUE(stage_processes.stage_processes.at(first).stopped);
  EXPECT_TRUE(stage_processes.stage_processes.at(last).stopped);
  end_stage_process(first);
  end_stage_process(last);
  EXPECT_TRUE(host->status().slices()[1].lost);
  EXPECT_TRUE(ends.empty()) << "its requests wait for it to come back";
  host->device_reading(mig_instance(0, 1), false);
  EXPECT_FALSE(host->status().slices()[1].lost);
}

TEST_F(PipelineHostTest, APipelineMovesToTheSliceThatHoldsItAllAndAnswersEverythingOnceInOrder) {
  policy = slice_scheduling::make_slice_policy("slo").value();
  begin({slice(0, "2g.20gb", 28, kLarge), slice(1, "1g.10gb", 14, kSmall),
         slice(2, "1g.10gb", 14, kSmall)});
  host->device_reading(mig_instance(0, 0), true);
  host->put(spec, two_models(), nullptr, "");
  submit(1);
  ASSERT_EQ(stage_processes.order.size(), 2u);
  const SandboxId blur = newest(0, 2), classify = newest(1, 2);
  all_ready(2);
  submit(2);
  host->device_reading(mig_instance(0, 0), false);
  ASSERT_EQ(stage_processes.order.size(), 3u) << "the new instance comes before the old one goes";
  const SandboxId whole = newest(0, 1);
  EXPECT_EQ(stage_processes.stage_processes.at(whole).device, mig_instance(0, 0));
  submit(3);
  EXPECT_FALSE(stage_processes.stage_processes.at(blur).stopped);
  all_ready(1);
  submit(4);
  EXPECT_TRUE(stage_processes.stage_processes.at(whole).given.empty())
      << "it would be answered before the others";
  for (uint64_t number = 1; number <= 3; ++number) {
    EXPECT_FALSE(stage_processes.stage_processes.at(blur).stopped) << "it has what it was given";
    answer(blur, first_answer);
    answer(classify, last_answer);
    EXPECT_EQ(ends.size(), number);
    EXPECT_TRUE(ends.contains(InvocationId{1, number}));
  }
  EXPECT_TRUE(stage_processes.stage_processes.at(blur).stopped);
  EXPECT_TRUE(stage_processes.stage_processes.at(classify).stopped);
  ASSERT_EQ(stage_processes.stage_processes.at(whole).given.size(), 1u);
  answer(whole, R"({"components": {}, "results": [{"value": "dog"}]})");
  for (uint64_t number = 1; number <= 4; ++number) {
    EXPECT_EQ(ends.at({1, number}).outcome, Outcome::kSucceeded);
  }
  EXPECT_EQ(ends.at({1, 4}).payload, "\"dog\"");
}

TEST_F(PipelineHostTest, ChannelsThatCannotBeMadeFailTheStart) {
  begin({slice(0, "1g.10gb", 14, kSmall), slice(1, "1g.10gb", 14, kSmall)});
  stage_processes.refuses_channels = true;
  host->put(spec, two_models(), nullptr, "");
  const InvocationId id = submit(1);
  for (int i = 0; i < 2'000 && ends.empty(); ++i) {
    clock.advance(seconds(1));
    loop.run_once(milliseconds(0));
  }
  ASSERT_TRUE(ends.contains(id));
  EXPECT_EQ(ends[id].error->message, "no memory");
  EXPECT_TRUE(stage_processes.order.empty());
}

TEST_F(PipelineHostTest, WhatIsRemovedOrDrainedIsAnswered) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId one = submit(1);
  host->remove(spec.id);
  EXPECT_EQ(ends.at(one).error->code, ErrorCode::kNotFound);
  EXPECT_FALSE(host->status().describe(spec.id).ok());
  EXPECT_EQ(host->live(), 0u);
}

TEST_F(PipelineHostTest, WhatAWorkerThatStopsHasNotBegunIsRefusedAsSuch) {
  begin({slice(0, "2g.20gb", 28, kLarge)});
  host->put(spec, two_models(), nullptr, "");
  const InvocationId running = submit(1);
  all_ready(1);
  std::vector<InvocationId> rest;
  for (uint64_t number = 2; number < 10; ++number) rest.push_back(submit(number));
  InvocationRequest step;
  step.id = {1, 10};
  step.payload = R"({"n": 1})";
  step.within_run = true;
  ASSERT_TRUE(host->submit(step, spec).ok());
  host->drain();
  EXPECT_FALSE(ends.contains(running));
  ASSERT_TRUE(ends.contains(rest.back()));
  EXPECT_EQ(ends.at(rest.back()).error, stopping_error(false)) << "another node may run it";
  EXPECT_EQ(ends.at({1, 10}).error, stopping_error(true)) << "other steps of its run may have run";
  // What a stage had and lost with it may have run.
  end_stage_process(newest(0, 1));
  ASSERT_TRUE(ends.contains(running));
  EXPECT_FALSE(has_not_begun(ends.at(running).error->code, ends.at(running).error->message));
}

}  // namespace
}  // namespace lambent::worker
