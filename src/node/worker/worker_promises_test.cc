// What the worker promised it keeps: a repeat runs once, an acknowledged call outlives the worker,
// and stopping loses nothing.
#include "node/worker/testing/worker_testing.h"

namespace lambent::worker {
namespace {

using testing::IsEmpty;

// An invocation that a worker ended under. The next one has given it to a sandbox, and its catalog
// does not tell that the attempt is counted.
class ResumedInvocation : public WorkerTest {
 protected:
  void SetUp() override {
    WorkerTest::SetUp();
    deploy("f");
    hold_events();
    const auto request = later("f", "resumed");
    id = request.id;
    await(submit(request));
    ASSERT_TRUE(until([&] { return held.size() == 1; }));
    held.clear();
    start_worker();
    catalog_is_held = true;
    ASSERT_TRUE(until([&] { return is_running(id); }));
  }

  InvocationId id;
};

TEST_F(WorkerTest, ARepeatJoinsTheRunningInvocationAndLaterGetsItsSuccess) {
  deploy("f");
  hold_events();
  const auto keyed = [&] {
    auto request = request_for("f", "{}");
    request.idempotency_key = "sdk-1";
    return request;
  };
  const auto first = submit(keyed());
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  const auto joined = submit(keyed());
  answer_held(0, "once");
  EXPECT_EQ(await(first).payload, "once");
  EXPECT_EQ(await(joined).payload, "once");
  const auto replayed = await(submit(keyed()));
  EXPECT_EQ(replayed.payload, "once");
  EXPECT_EQ(replayed.id, first->result().id);
  EXPECT_EQ(held.size(), 1U);
}

TEST_F(WorkerTest, ARepeatOfAFailureRunsAgain) {
  deploy("f");
  int runs = 0;
  launcher.script = [&](FakeRuntime& runtime, const Event& event) {
    ++runs == 1 ? runtime.fail(event, "{}", "E") : runtime.answer(event, "better");
  };
  auto request = request_for("f", "{}");
  request.idempotency_key = "sdk-2";
  auto repeat = request;
  repeat.id = new_invocation_id(random);
  EXPECT_EQ(await(submit(request)).outcome, Outcome::kFunctionError);
  EXPECT_EQ(await(submit(repeat)).payload, "better");
}

TEST_F(WorkerTest, AForgottenInvocationThatWaitsIsDroppedAndARunningOneGoesOn) {
  deploy("f");
  hold_events();
  const auto running = request_for("f", "1");
  const auto waiting = request_for("f", "2");
  const auto first = submit(running);
  const auto second = submit(waiting);
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  worker->forget(running.id);
  worker->forget(waiting.id);
  EXPECT_EQ(await(second).error->code, ErrorCode::kCancelled);
  answer_held(0, "done");
  EXPECT_EQ(await(first).payload, "done");
}

TEST_F(WorkerTest, AnAsynchronousInvocationIsAcknowledgedOnlyWhenItIsDurable) {
  deploy("f");
  auto request = request_for("f", "later");
  request.kind = InvocationKind::kAsynchronous;
  size_t durable = 0;
  int acknowledged = 0;
  worker->submit(request, [&](Result<InvocationResult> result) {
    ++acknowledged;
    EXPECT_TRUE(result.ok());
    const auto pending = store->pending_async(0, 10);
    durable = pending.ok() ? pending->size() : 0;
  });
  EXPECT_EQ(acknowledged, 0);
  ASSERT_TRUE(until([&] { return acknowledged > 0; }));
  EXPECT_EQ(acknowledged, 1);
  EXPECT_EQ(durable, 1U);

  std::optional<InvocationResult> stored;
  bool asking = false;
  ASSERT_TRUE(until([&] {
    if (!stored && !std::exchange(asking, true)) {
      worker->async_result(kDefaultTenant, request.id, [&](auto result) {
        asking = false;
        ASSERT_TRUE(result.ok());
        stored = *result;
      });
    }
    return stored.has_value();
  }));
  EXPECT_EQ(stored->outcome, Outcome::kSucceeded);
  EXPECT_EQ(stored->payload, "later");
  EXPECT_THAT(*store->pending_async(0, 10), IsEmpty());
}

TEST_F(WorkerTest, AnAsynchronousInvocationSurvivesItsWorker) {
  deploy("f");
  hold_events();
  auto request = request_for("f", "survives");
  request.kind = InvocationKind::kAsynchronous;
  await(submit(request));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  held.clear();
  start_worker();
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  EXPECT_EQ(held[0].second.payload, "survives");
  EXPECT_EQ(held[0].second.id, to_string(request.id));
}

TEST_F(WorkerTest, AnAttemptIsCountedOnceForEachWorkerHoweverOftenItBeginsThere) {
  deploy("f");
  // Gone before it asks for more: what it is given meanwhile starts again elsewhere.
  launcher.script = [](FakeRuntime& runtime, const Event& event) {
    runtime.answer_last(event, "and gone");
  };
  EXPECT_EQ(invoke("f", "").payload, "and gone");
  ASSERT_EQ(launcher.running.size(), 1U);
  await(submit(later("f", "begun twice")));
  settle();
  hold_events();
  launcher.end(launcher.running.begin()->first, {.exit_code = 1});
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  EXPECT_EQ(held[0].second.payload, "begun twice");
  EXPECT_EQ(attempts_of_first(), 1U);
  held.clear();
  start_worker();
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  EXPECT_EQ(attempts_of_first(), 2U);
}

TEST_F(ResumedInvocation, BeginsOnlyOnceThatIsCounted) {
  settle();
  EXPECT_THAT(held, IsEmpty());
  // Its sandbox has not seen it: it starts again in another one, and is counted once.
  const SandboxId first = launcher.running.begin()->first;
  launcher.end(first, {.signal = 9});
  ASSERT_TRUE(until([&] {
    return !launcher.running.empty() && launcher.running.begin()->first != first && is_running(id);
  }));
  settle();
  EXPECT_THAT(held, IsEmpty());
  catalog_is_held = false;
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  EXPECT_EQ(held[0].second.payload, "resumed");
  EXPECT_EQ(attempts_of_first(), 2U);
  answer_held(0, "done");
  ASSERT_TRUE(until([&] { return store->pending_async(0, 10)->empty(); }));
  settle();
  EXPECT_EQ(held.size(), 1U);
}

TEST_F(ResumedInvocation, ThatTimesOutBeforeItIsCountedDoesNotBeginAfterwards) {
  clock.advance(seconds(3));
  ASSERT_TRUE(until([&] { return !is_running(id); }));
  catalog_is_held = false;
  ASSERT_TRUE(until([&] { return store->pending_async(0, 10)->empty(); }));
  settle();
  EXPECT_THAT(held, IsEmpty());
}

TEST_F(WorkerTest, WhatWorkersEndedUnderThreeTimesIsGivenUp) {
  deploy("f");
  hold_events();
  const auto request = later("f", "poison");
  await(submit(request));
  for (unsigned life = 1; life <= 3; ++life) {
    ASSERT_TRUE(until([&] { return held.size() == life; }));
    EXPECT_EQ(attempts_of_first(), life);
    start_worker();
  }
  std::optional<InvocationResult> outcome;
  bool asking = false;
  ASSERT_TRUE(until([&] {
    if (!asking) {
      asking = true;
      worker->async_result(kDefaultTenant, request.id, [&](auto result) {
        asking = false;
        if (result.ok()) outcome = *result;
      });
    }
    return outcome.has_value();
  }));
  EXPECT_EQ(outcome->outcome, Outcome::kRejected);
  EXPECT_EQ(outcome->error->code, ErrorCode::kAborted);
  EXPECT_EQ(held.size(), 3U);
}

TEST_F(WorkerTest, WhatWasAcknowledgedRunsAlsoWhereFewerMayWaitNow) {
  deploy("f");
  hold_events();
  for (int i = 0; i < 4; ++i) {
    auto request = request_for("f", std::to_string(i));
    request.kind = InvocationKind::kAsynchronous;
    await(submit(request));
  }
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  held.clear();
  queued_per_function = 1;
  start_worker();
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(until([&] { return held.size() == i + 1; })) << i;
    EXPECT_EQ(held[i].second.payload, std::to_string(i));
    answer_held(i, "done");
  }
}

TEST_F(WorkerTest, WhatIsOnItsWayIntoTheCatalogTakesRoomOfItsOwnFunction) {
  queued_per_function = 2;
  start_worker();
  deploy("flood");
  deploy("other");
  const auto first = submit(later("flood", "{}"));
  const auto second = submit(later("flood", "{}"));
  const auto third = submit(later("flood", "{}"));
  const auto beside = submit(later("other", "{}"));
  ASSERT_EQ(third->answers, 1);
  EXPECT_EQ(third->result().error->code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(beside->answers, 0) << "nothing is durable yet";
  for (const auto& each : {first, second, beside}) EXPECT_FALSE(await(each).error);
  EXPECT_THAT(counts.text(), testing::HasSubstr("outcome=\"rejected\""));
}

TEST_F(WorkerTest, CallsOfAWorkflowThatWasAcknowledgedWaitForRoomAndAreNeverRefused) {
  deploy("f");
  deploy("other");
  deploy_workflow("all", R"({"name": "each", "function": "f", "for_each": "$input"})");
  hold_events();
  await(submit(later("all", "[1,2,3,4,5,6,7,8]")));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  held.clear();
  queued_invocations = 4;
  start_worker();
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  const auto beside = submit("other", "beside");
  ASSERT_TRUE(until([&] { return held.size() == 2; })) << "there is room for others all the time";
  EXPECT_EQ(held[1].second.payload, "beside");
  answer_held(1, "served");
  EXPECT_EQ(await(beside).payload, "served");
  held.erase(held.begin() + 1);
  for (size_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(in_time([&] { return held.size() == i + 1; })) << i;
    EXPECT_EQ(held[i].second.payload, std::to_string(i + 1)) << "first come, first served";
    answer_held(i, held[i].second.payload);
  }
  ASSERT_TRUE(until([&] { return store->pending_async(0, 10)->empty(); }));
  EXPECT_THAT(counts.text(), testing::Not(testing::HasSubstr("outcome=\"rejected\"")));
  const auto unpromised = submit("all", "[1,2,3,4,5,6,7,8]");
  ASSERT_TRUE(until([&] { return unpromised->answers > 0; }));
  EXPECT_EQ(unpromised->result().error_type, "Workflow.CallRejected")
      << "it was promised to no client";
}

TEST_F(WorkerTest, CallsOfAWorkflowThatWasAcknowledgedLeaveRoomForThePayloadsOfOthers) {
  const std::string event = R"({"list": [1,2,3,4,5,6], "text": ")" + std::string(1000, 'x') + "\"}";
  most_payloads = Bytes(4000);
  start_worker();
  deploy("f");
  deploy("other");
  deploy_workflow(
      "all",
      R"({"name": "each", "function": "f", "for_each": "$input.list", "input": "$input.text"})");
  hold_events();
  await(submit(later("all", event)));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  settle();
  const auto beside = submit("other", std::string(1900, 'y'));
  ASSERT_TRUE(until([&] { return held.size() == 2; })) << "two of f have as much";
  answer_held(1, "served");
  EXPECT_EQ(await(beside).payload, "served");
  held.clear();
  // One is larger than all that there is now: they go one by one.
  most_payloads = Bytes(500);
  start_worker();
  for (size_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(in_time([&] { return held.size() == i + 1; })) << i;
    answer_held(i, "1");
  }
  ASSERT_TRUE(until([&] { return store->pending_async(0, 10)->empty(); }));
}

TEST_F(WorkerTest, StoppingKeepsAWorkflowWhoseCallsWaitForRoom) {
  queued_per_function = 1;
  start_worker();
  deploy("f");
  deploy_workflow("all", R"({"name": "each", "function": "f", "for_each": "$input"})");
  hold_events();
  await(submit(later("all", "[1,2,3,4]")));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  bool drained = false;
  worker->drain([&] { drained = true; });
  settle();
  answer_held(0, "1");
  ASSERT_TRUE(in_time([&] { return drained; }));
  EXPECT_EQ(store->pending_async(0, 10)->size(), 1U) << "for the next worker";
}

TEST_F(WorkerTest, ARepeatOfWhatWasAcknowledgedIsNotRefusedForWantOfRoom) {
  queued_per_function = 1;
  start_worker();
  deploy("f");
  hold_events();
  const auto keyed = [&](const std::string& key) {
    auto request = later("f", "{}");
    request.idempotency_key = key;
    return request;
  };
  await(submit(keyed("first")));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  const InvocationId second = await(submit(keyed("second"))).id;
  const auto repeated = await(submit(keyed("second")));
  EXPECT_FALSE(repeated.error);
  EXPECT_EQ(repeated.id, second);
  EXPECT_THAT(counts.text(), testing::Not(testing::HasSubstr("outcome=\"rejected\"")));
  const auto third = await(submit(keyed("third")));
  ASSERT_TRUE(third.error);
  EXPECT_EQ(third.error->code, ErrorCode::kResourceExhausted);
  EXPECT_GE(third.retry_after, seconds(1));
  EXPECT_THAT(counts.text(), testing::HasSubstr("outcome=\"rejected\""));
}

TEST_F(WorkerTest, PayloadsOnTheirWayIntoTheCatalogCount) {
  most_payloads = Bytes(1000);
  start_worker();
  deploy("f");
  deploy("other");
  const auto first = submit(later("f", std::string(600, '1')));
  const auto second = submit(later("other", std::string(600, '1')));
  EXPECT_EQ(first->answers, 0) << "it is not durable yet";
  ASSERT_EQ(second->answers, 1);
  EXPECT_EQ(second->result().error->code, ErrorCode::kResourceExhausted);
  EXPECT_FALSE(await(first).error);
  ASSERT_TRUE(until([&] { return store->pending_async(0, 10)->empty(); }));
  EXPECT_FALSE(await(submit(later("other", std::string(999, '1')))).error) << "all of it is free";
}

TEST_F(WorkerTest, WorkflowsThatWaitAreSoManyAtMostAndTheRestHearsWhenToComeBack) {
  queued_per_function = 2;
  live_workflows = 1;
  start_worker();
  deploy("f");
  deploy_workflow("one", R"({"name": "a", "function": "f"})");
  hold_events();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(await(submit(later("one", "1"))).error);
  const auto refused = submit(later("one", "1"));
  ASSERT_EQ(refused->answers, 1);
  EXPECT_EQ(refused->result().outcome, Outcome::kRejected);
  EXPECT_EQ(refused->result().error->code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(refused->result().retry_after, seconds(1)) << "nothing is known of how long they take";
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  clock.advance(seconds(2));
  answer_held(0, "1");
  ASSERT_TRUE(until([&] { return held.size() == 2; }));
  EXPECT_FALSE(await(submit(later("one", "1"))).error) << "there is a place again";
  EXPECT_EQ(submit(later("one", "1"))->result().retry_after, seconds(2));
}

TEST_F(WorkerTest, ARepeatOfAnAsynchronousInvocationRunsOnceAlsoAfterARestart) {
  deploy("f");
  hold_events();
  const auto keyed = [&](const std::string& payload) {
    auto request = request_for("f", payload);
    request.kind = InvocationKind::kAsynchronous;
    request.idempotency_key = "sdk-3";
    return request;
  };
  const InvocationId first = await(submit(keyed("once"))).id;
  EXPECT_EQ(await(submit(keyed("once"))).id, first);
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  held.clear();
  start_worker();
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  EXPECT_EQ(await(submit(keyed("once"))).id, first);
  EXPECT_NE(await(submit(keyed("another"))).id, first);
  answer_held(0, "done");
  ASSERT_TRUE(until([&] { return held.size() == 2; }));
  EXPECT_EQ(held[1].second.payload, "another");
  EXPECT_EQ(await(submit(keyed("once"))).id, first) << "it is over";
  answer_held(1, "done");
  settle();
  EXPECT_EQ(held.size(), 2U);
}

TEST_F(WorkerTest, DrainingFinishesWhatRunsAndRejectsTheRest) {
  deploy("f");
  hold_events();
  const auto running = submit("f", "1");
  const auto queued = submit("f", "2");
  auto durable = request_for("f", "3");
  durable.kind = InvocationKind::kAsynchronous;
  await(submit(durable));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  int drained = 0;
  worker->drain([&] { ++drained; });
  EXPECT_EQ(await(queued).error->code, ErrorCode::kUnavailable);
  EXPECT_EQ(submit("f", "4")->answer->error().code, ErrorCode::kUnavailable);
  settle();
  EXPECT_EQ(drained, 0);
  answer_held(0, "done");
  EXPECT_EQ(await(running).payload, "done");
  ASSERT_TRUE(until([&] { return drained > 0; }));
  EXPECT_TRUE(launcher.running.empty());
  EXPECT_EQ(drained, 1);
  // What is durable waits for the next worker.
  EXPECT_EQ(store->pending_async(0, 10)->size(), 1U);
}

}  // namespace
}  // namespace lambent::worker
