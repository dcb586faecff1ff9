// What follows an asynchronous invocation: it is tried again as its function says, whatever becomes
// of the worker, and its destination is told once.
#include "node/worker/follow_ups.h"

#include <nlohmann/json.hpp>

#include "core/domain/async_limits.h"
#include "node/worker/testing/worker_testing.h"

namespace lambent::worker {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

class FollowUpsTest : public WorkerTest {
 protected:
  FunctionSpec with(const std::string& name, AsyncSettings settings) {
    FunctionSpec spec = spec_of(name);
    spec.asynchronous = std::move(settings);
    return deploy(std::move(spec));
  }
  void fail_held(size_t index) {
    held[index].first->fail(held[index].second, R"({"errorMessage":"no","errorType":"E"})", "E");
  }
  // Its outcome, or nothing if it has none.
  std::optional<InvocationResult> outcome_of(InvocationId id) {
    std::optional<Result<std::optional<InvocationResult>>> answer;
    worker->async_result(kDefaultTenant, id, [&](auto result) { answer = std::move(result); });
    EXPECT_TRUE(until([&] { return answer.has_value(); }));
    if (!answer || !answer->ok()) return std::nullopt;
    return answer->value();
  }
  std::optional<LiveInvocationStatus> waiting() {
    for (auto& each : worker->activity().live(kDefaultTenant, 10)) {
      if (each.phase == "waiting") return std::move(each);
    }
    return std::nullopt;
  }
  // Until it waits and the catalog has that.
  [[nodiscard]] bool until_it_waits(unsigned runs) {
    return until([&] {
      const auto pending = store->pending_async(0, 10);
      const bool is_kept = pending.ok() && !pending->empty() && pending->front().runs == runs;
      return is_kept && waiting() && waiting()->run == runs + 1;
    });
  }
  bool begins_at(Duration delay, size_t held_before) {
    clock.advance(delay - milliseconds(1));
    settle();
    EXPECT_EQ(held.size(), held_before) << "too early";
    clock.advance(milliseconds(1));
    return until([&] { return held.size() == held_before + 1; });
  }
};

TEST_F(FollowUpsTest, OneThatFailsIsTriedAgainAfterAMinuteAndThenAfterTwo) {
  with("f", {.retries = 2});
  hold_events();
  const auto request = later("f", "\"again\"");
  await(submit(request));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  fail_held(0);
  ASSERT_TRUE(until_it_waits(1));
  ASSERT_TRUE(waiting());
  EXPECT_EQ(waiting()->run, 2U);
  EXPECT_EQ(waiting()->last_failure, "E: no");
  EXPECT_FALSE(outcome_of(request.id)) << "a failed run is no outcome";
  ASSERT_TRUE(begins_at(seconds(60), 1));
  EXPECT_EQ(held[1].second.payload, "\"again\"");
  EXPECT_EQ(held[1].second.id, to_string(request.id)) << "handlers know it by that";
  fail_held(1);
  ASSERT_TRUE(until_it_waits(2));
  ASSERT_TRUE(begins_at(seconds(120), 2));
  answer_held(2, "done");
  ASSERT_TRUE(until([&] { return store->pending_async(0, 10)->empty(); }));
  const auto outcome = outcome_of(request.id);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->payload, "done");
  EXPECT_EQ(outcome->runs, 3U);
  EXPECT_THAT(counts.text(), HasSubstr("lambent_async_retries_total{function=\"f\",reason="
                                       "\"failed\",tenant=\"1\"} 2"));
  const auto ended = worker->activity().ended(kDefaultTenant, EndedQuery{});
  ASSERT_EQ(ended.size(), 3U) << "each run is listed";
  EXPECT_EQ(ended[0].run, 3U);
  EXPECT_FALSE(ended[0].again_in);
  EXPECT_EQ(ended[2].again_in, seconds(60));
}

TEST_F(FollowUpsTest, WithoutASettingTheFirstFailureIsTheOutcome) {
  deploy("f");
  hold_events();
  const auto request = later("f", "1");
  await(submit(request));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  fail_held(0);
  ASSERT_TRUE(until([&] { return store->pending_async(0, 10)->empty(); }));
  EXPECT_EQ(outcome_of(request.id)->runs, 1U);
}

TEST_F(FollowUpsTest, ASynchronousOneIsNotTriedAgain) {
  with("f", {.retries = 2, .on_failure = "alarm"});
  deploy("alarm");
  hold_events();
  const auto submission = submit("f", "1");
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  fail_held(0);
  EXPECT_EQ(await(submission).outcome, Outcome::kFunctionError);
  settle();
  EXPECT_EQ(held.size(), 1U);
  EXPECT_FALSE(waiting());
}

TEST_F(FollowUpsTest, WhatWaitsForItsNextRunOutlivesTheWorker) {
  with("f", {.retries = 1});
  hold_events();
  const auto request = later("f", "\"kept\"");
  await(submit(request));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  fail_held(0);
  ASSERT_TRUE(until_it_waits(1));
  held.clear();
  start_worker();
  ASSERT_TRUE(waiting());
  ASSERT_TRUE(begins_at(seconds(60), 0));
  EXPECT_EQ(held[0].second.payload, "\"kept\"");
  EXPECT_EQ(attempts_of_first(), 1U) << "counted before it began, as what was resumed is";
  fail_held(0);
  ASSERT_TRUE(until([&] { return store->pending_async(0, 10)->empty(); }));
  EXPECT_EQ(outcome_of(request.id)->runs, 2U);
}

TEST_F(FollowUpsTest, WhatFailedDoesNotBeginAgainBeforeTheCatalogHasThat) {
  with("f", {.retries = 1});
  hold_events();
  const auto request = later("f", "1");
  await(submit(request));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  settle();
  catalog_is_held = true;
  fail_held(0);
  ASSERT_TRUE(until([&] { return !is_running(request.id); }));
  clock.advance(seconds(60));
  settle();
  EXPECT_EQ(held.size(), 1U);
  catalog_is_held = false;
  ASSERT_TRUE(in_time([&] { return held.size() == 2; }));
}

TEST_F(FollowUpsTest, OneThatWaitsCanBeCancelled) {
  with("f", {.retries = 2, .on_failure = "alarm"});
  deploy("alarm");
  hold_events();
  const auto request = later("f", "1");
  await(submit(request));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  fail_held(0);
  ASSERT_TRUE(until_it_waits(1));
  const auto cancelled = worker->cancel(kDefaultTenant, request.id);
  ASSERT_TRUE(cancelled.ok());
  EXPECT_EQ(cancelled->was, "waiting");
  EXPECT_TRUE(cancelled->ended);
  EXPECT_EQ(worker->cancel(TenantId(7), request.id).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(until([&] { return store->pending_async(0, 10)->empty(); }));
  const auto outcome = outcome_of(request.id);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->error->code, ErrorCode::kCancelled);
  EXPECT_THAT(outcome->destination, IsEmpty()) << "it did not fail";
  clock.advance(std::chrono::hours(1));
  settle();
  EXPECT_EQ(held.size(), 1U);
}

TEST_F(FollowUpsTest, OneThatIsCancelledWhileItRunsIsNotTriedAgain) {
  with("f", {.retries = 2});
  hold_events();
  const auto request = later("f", "1");
  await(submit(request));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  ASSERT_TRUE(worker->cancel(kDefaultTenant, request.id).ok());
  ASSERT_TRUE(in_time([&] { return store->pending_async(0, 10)->empty(); }));
  EXPECT_EQ(outcome_of(request.id)->error_type, "Invocation.Cancelled");
}

TEST_F(FollowUpsTest, ItsDestinationGetsLambdasRecord) {
  with("f", {.on_success = "audit", .on_failure = "alarm"});
  deploy("audit");
  deploy("alarm");
  hold_events();
  const auto request = later("f", R"({"n":1})");
  await(submit(request));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  answer_held(0, R"({"m":2})");
  ASSERT_TRUE(in_time([&] { return held.size() == 2; }));
  const json record = json::parse(held[1].second.payload);
  EXPECT_EQ(record["requestContext"]["condition"], "Success");
  EXPECT_EQ(record["requestContext"]["requestId"], to_string(request.id));
  EXPECT_THAT(record["requestContext"]["functionArn"].get<std::string>(),
              testing::EndsWith(":function:f:$LATEST"));
  EXPECT_EQ(record["requestContext"]["approximateInvokeCount"], 1);
  EXPECT_EQ(record["requestPayload"], json({{"n", 1}}));
  EXPECT_EQ(record["responsePayload"], json({{"m", 2}}));
  answer_held(1, "{}");
  ASSERT_TRUE(until([&] { return store->pending_async(0, 10)->empty(); }));
  EXPECT_EQ(outcome_of(request.id)->destination, "audit as " + held[1].second.id);
  EXPECT_THAT(counts.text(),
              HasSubstr("lambent_async_destinations_total{condition=\"Success\",function=\"f\","
                        "outcome=\"sent\",tenant=\"1\"} 1"));
  await(submit(later("f", R"({"n":2})")));
  ASSERT_TRUE(until([&] { return held.size() == 3; }));
  fail_held(2);
  ASSERT_TRUE(in_time([&] { return held.size() == 4; }));
  const json failure = json::parse(held[3].second.payload);
  EXPECT_EQ(failure["requestContext"]["condition"], "RetriesExhausted");
  EXPECT_EQ(failure["responseContext"]["functionError"], "Unhandled");
  EXPECT_EQ(failure["responsePayload"]["errorType"], "E");
}

TEST_F(FollowUpsTest, ADestinationThatIsNotThereIsNotedInTheOutcome) {
  with("f", {.on_success = "nowhere"});
  const auto request = later("f", "1");
  await(submit(request));
  ASSERT_TRUE(until([&] { return store->pending_async(0, 10)->empty(); }));
  EXPECT_THAT(outcome_of(request.id)->destination, HasSubstr("nowhere: not sent, because "));
  EXPECT_THAT(log.names, testing::Contains("destination_not_told"));
  EXPECT_THAT(counts.text(), HasSubstr("outcome=\"not_sent\""));
}

TEST_F(FollowUpsTest, ALoopOfDestinationsEnds) {
  with("ping", {.on_success = "pong"});
  with("pong", {.on_success = "ping"});
  std::vector<std::string> ran;
  launcher.script = [&](FakeRuntime& runtime, const Event& event) {
    ran.push_back(event.id);
    runtime.answer(event, "1");
  };
  await(submit(later("ping", "1")));
  ASSERT_TRUE(in_time([&] { return store->pending_async(0, 10)->empty(); }));
  settle();
  EXPECT_EQ(ran.size(), 1 + limits::kDestinationChain);
  const auto last = outcome_of(*invocation_id_from_string(ran.back()));
  ASSERT_TRUE(last);
  EXPECT_THAT(last->destination, HasSubstr("they seem to be a loop"));
}

TEST_F(FollowUpsTest, WhatIsTooOldBeforeItRunsEndsAndIsToldAsAFailure) {
  FunctionSpec spec = spec_of("f");
  spec.timeout = seconds(100);
  spec.asynchronous = {.max_age_s = 60, .on_failure = "alarm"};
  deploy(spec);
  deploy("alarm");
  hold_events();
  const auto first = later("f", "1");
  await(submit(first));
  const auto second = later("f", "2");
  await(submit(second));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  clock.advance(seconds(61));
  ASSERT_TRUE(in_time([&] { return held.size() == 2; }));
  const json record = json::parse(held[1].second.payload);
  EXPECT_EQ(record["requestContext"]["condition"], "EventAgeExceeded");
  EXPECT_EQ(record["requestContext"]["approximateInvokeCount"], 0);
  EXPECT_EQ(record["requestPayload"], 2);
  const auto outcome = outcome_of(second.id);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->outcome, Outcome::kRejected);
  EXPECT_EQ(outcome->error_type, kEventTooOldErrorType);
  answer_held(0, "done");
  ASSERT_TRUE(until([&] { return outcome_of(first.id).has_value(); })) << "it ran, and goes on";
  EXPECT_EQ(outcome_of(first.id)->payload, "done");
}

TEST_F(FollowUpsTest, WhatWaitsForItsNextRunTakesRoomOfItsFunctionsQueue) {
  queued_per_function = 1;
  start_worker();
  with("f", {.retries = 2});
  hold_events();
  await(submit(later("f", "1")));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  fail_held(0);
  ASSERT_TRUE(until_it_waits(1));
  const auto refused = await(submit(later("f", "2")));
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->code, ErrorCode::kResourceExhausted);
}

TEST_F(FollowUpsTest, AWorkerThatStopsLeavesWhatWaitsToTheNext) {
  with("f", {.retries = 1});
  hold_events();
  await(submit(later("f", "1")));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  int drained = 0;
  worker->drain([&] { ++drained; });
  fail_held(0);
  ASSERT_TRUE(until([&] { return drained > 0; }));
  ASSERT_TRUE(until_it_waits(1));
  clock.advance(std::chrono::hours(1));
  settle();
  EXPECT_EQ(held.size(), 1U);
  held.clear();
  start_worker();
  ASSERT_TRUE(in_time([&] { return held.size() == 1; }));
}

TEST_F(FollowUpsTest, ARunOfAWorkflowIsTriedAgainAsAWhole) {
  deploy("step");
  std::ofstream(folder.path() + "/source/graph.json")
      << R"({"components": [{"name": "a", "function": "step"}]})";
  zip_base64 = base64_encode(archive::make_zip(folder.path() + "/source").value());
  FunctionSpec spec = spec_of("flow");
  spec.kind = FunctionKind::kWorkflow;
  spec.handler = "graph.json";
  spec.timeout = seconds(30);
  spec.asynchronous.retries = 1;
  deploy(spec);
  hold_events();
  const auto request = later("flow", "7");
  await(submit(request));
  ASSERT_TRUE(in_time([&] { return held.size() == 1; }));
  fail_held(0);
  ASSERT_TRUE(until_it_waits(1));
  ASSERT_TRUE(begins_at(seconds(60), 1));
  EXPECT_EQ(held[1].second.payload, "7");
  answer_held(1, "8");
  ASSERT_TRUE(in_time([&] { return store->pending_async(0, 10)->empty(); }));
  EXPECT_EQ(outcome_of(request.id)->payload, "8");
  EXPECT_EQ(outcome_of(request.id)->runs, 2U);
}

}  // namespace
}  // namespace lambent::worker
