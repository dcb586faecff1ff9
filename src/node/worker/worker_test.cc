// An invocation in the worker, from its submission to its answer, and everything a sandbox can do
// to it.
#include "core/domain/limits.h"
#include "core/domain/model_function.h"
#include "node/worker/testing/worker_testing.h"

namespace lambent::worker {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(WorkerTest, TheFirstInvocationStartsASandboxAndTheNextFindsItWarm) {
  deploy("f");
  const auto cold = invoke("f", "{\"a\":1}");
  EXPECT_EQ(cold.outcome, Outcome::kSucceeded);
  EXPECT_EQ(cold.payload, "{\"a\":1}");
  EXPECT_EQ(cold.start, StartClass::kCold);
  EXPECT_EQ(cold.revision, 1U);
  EXPECT_THAT(cold.log_tail, HasSubstr("START RequestId: " + to_string(cold.id)));
  const auto warm = invoke("f", "2");
  EXPECT_EQ(warm.payload, "2");
  EXPECT_EQ(warm.start, StartClass::kWarm);
  EXPECT_EQ(launcher.plans.size(), 1U);
  const auto status = worker->sandbox_status(kDefaultTenant, Metering::kMemory);
  ASSERT_EQ(status.size(), 1U);
  EXPECT_EQ(status[0].state, "idle");
  EXPECT_EQ(status[0].invocations, 2U);
}

TEST_F(WorkerTest, ACompletionIsLoggedOnlyWhereDebugEventsAreWanted) {
  deploy("f");
  invoke("f", "1");
  EXPECT_FALSE(log.names.contains("invocation_completed"));
  log.least = LogLevel::kDebug;
  invoke("f", "2");
  EXPECT_TRUE(log.names.contains("invocation_completed"));
}

TEST_F(WorkerTest, UnknownFunctionsAndPayloadsThatAreTooLargeAreRefused) {
  deploy("f");
  const auto unknown = submit("g", "{}");
  const auto large = submit("f", std::string(limits::kSyncPayload.count + 1, 'x'));
  EXPECT_EQ(unknown->answer->error().code, ErrorCode::kNotFound);
  EXPECT_EQ(large->answer->error().code, ErrorCode::kOutOfRange);
  EXPECT_THAT(launcher.plans, IsEmpty());
}

TEST_F(WorkerTest, PayloadsOfLiveInvocationsTogetherStayBelowTheirLimit) {
  most_payloads = Bytes(1000);
  start_worker();
  deploy("f");
  hold_events();
  const auto running = submit("f", std::string(400, '1'));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  const auto refused = submit("f", std::string(601, '1'));
  ASSERT_EQ(refused->answers, 1);
  EXPECT_EQ(refused->result().outcome, Outcome::kRejected);
  EXPECT_EQ(refused->result().error->code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(refused->result().retry_after, seconds(1)) << "nothing of it waits";
  const auto small = submit("f", std::string(300, '1'));
  EXPECT_EQ(small->answers, 0);
  EXPECT_EQ(submit("f", "1")->answers, 1) << "it has more than it leaves to others";
  answer_held(0, "1");
  await(running);
  ASSERT_TRUE(until([&] { return held.size() == 2; }));
  answer_held(1, "2");
  await(small);
  // All of it is free again, however the payload left.
  launcher.script = [](FakeRuntime& runtime, const Event& event) { runtime.answer(event, "3"); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(invoke("f", std::string(999, '1')).payload, "3");
}

TEST_F(WorkerTest, AnswersInTimeAndLateAreCountedButNoneWhoseClientLeft) {
  queued_per_function = 1;
  start_worker();
  FunctionSpec spec = spec_of("f");
  spec.slo_ms = 200;
  deploy(spec);
  hold_events();
  const auto quick = submit("f", "1");
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  const auto slow = submit("f", "2");
  const auto refused = submit("f", "3");
  ASSERT_EQ(refused->answers, 1);
  EXPECT_EQ(refused->result().outcome, Outcome::kRejected);
  EXPECT_EQ(refused->result().in_time, false) << "its client has no answer";

  clock.advance(milliseconds(200));
  answer_held(0, "1");
  EXPECT_EQ(await(quick).in_time, true);
  ASSERT_TRUE(until([&] { return held.size() == 2; }));
  clock.advance(milliseconds(1));
  answer_held(1, "2");
  EXPECT_EQ(await(slow).in_time, false) << "with its wait it took 201 ms";

  launcher.script = [](FakeRuntime& runtime, const Event& event) {
    runtime.fail(event, "{}", "Function.ValueError");
  };
  EXPECT_EQ(invoke("f", "4").in_time, false);
  hold_events();
  const auto request = request_for("f", "5");
  const auto left = submit(request);
  ASSERT_TRUE(until([&] { return held.size() == 3; }));
  ASSERT_TRUE(worker->cancel(kDefaultTenant, request.id).ok());
  EXPECT_EQ(await(left).in_time, std::nullopt);

  const std::string series = "lambent_slo_requests_total{function=\"f\",outcome=";
  const std::string metrics = counts.text();
  EXPECT_THAT(metrics, HasSubstr(series + "\"in_time\",tenant=\"1\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr(series + "\"late\",tenant=\"1\"} 3\n"));
}

TEST_F(WorkerTest, AHandlersErrorIsToldInItsOwnWordsAndItsSandboxStays) {
  deploy("f");
  launcher.script = [](FakeRuntime& runtime, const Event& event) {
    runtime.fail(event, "{\"errorMessage\":\"no\"}", "Function.ValueError");
  };
  for (int i = 0; i < 2; ++i) {
    const auto result = invoke("f", "{}");
    EXPECT_EQ(result.outcome, Outcome::kFunctionError);
    EXPECT_EQ(result.error_type, "Function.ValueError");
    EXPECT_EQ(result.payload, "{\"errorMessage\":\"no\"}");
  }
  EXPECT_EQ(launcher.plans.size(), 1U);
}

TEST_F(WorkerTest, ACrashEndsTheInvocationAndTheNextGetsANewSandbox) {
  deploy("f");
  launcher.script = [this](FakeRuntime& runtime, const Event& event) {
    if (event.payload != "crash") return runtime.answer(event, "ok");
    runtime.print("about to go\n");
    launcher.end(runtime.sandbox(), {.signal = 11, .memory_peak = Bytes::mib(5)});
  };
  const auto crashed = invoke("f", "crash");
  EXPECT_EQ(crashed.outcome, Outcome::kFunctionError);
  EXPECT_EQ(crashed.error_type, "Runtime.ExitError");
  EXPECT_EQ(crashed.error->code, ErrorCode::kUnknown) << "the function's fault, not the worker's";
  EXPECT_THAT(crashed.payload, HasSubstr(to_string(crashed.id)));
  EXPECT_THAT(crashed.payload, HasSubstr("signal: 11"));
  EXPECT_THAT(crashed.log_tail, HasSubstr("about to go\n"));
  EXPECT_EQ(crashed.host_memory_peak, Bytes::mib(5));
  const auto next = invoke("f", "{}");
  EXPECT_EQ(next.payload, "ok");
  EXPECT_EQ(next.start, StartClass::kCold);
}

TEST_F(WorkerTest, AnEventThatItsRuntimeNeverSawIsGivenWholeToTheNext) {
  deploy("f");
  int calls = 0;
  launcher.script = [&](FakeRuntime& runtime, const Event& event) {
    if (++calls == 1) return runtime.answer_last(event, "first");
    runtime.answer(event, event.payload);
  };
  const auto first = submit(request_for("f", "one"));
  ASSERT_TRUE(until([&] { return first->answers == 1; }));
  const auto second = submit(request_for("f", "two"));
  ASSERT_TRUE(until([&] { return launcher.running.size() == 1; }));
  settle();
  launcher.end(launcher.running.begin()->first, {.exit_code = 0});
  ASSERT_TRUE(until([&] { return second->answers == 1; }));
  EXPECT_EQ(second->result().outcome, Outcome::kSucceeded);
  EXPECT_EQ(second->result().payload, "two");
}

TEST_F(WorkerTest, ARuntimeThatCannotLoadTheFunctionTellsItsClientWhy) {
  deploy("f");
  const std::string words = "{\"errorMessage\":\"No module named 'app'\"}";
  launcher.init = [&](FakeRuntime& runtime) {
    runtime.fail_init(words, "Runtime.ImportModuleError");
  };
  const auto result = invoke("f", "{}");
  EXPECT_EQ(result.outcome, Outcome::kFunctionError);
  EXPECT_EQ(result.error_type, "Runtime.ImportModuleError");
  EXPECT_EQ(result.payload, words);
  EXPECT_EQ(launcher.plans.size(), 1U);
  EXPECT_EQ(launcher.kills.size(), 1U);
}

TEST_F(WorkerTest, ARuntimeThatDiesBeforeItAsksIsTheFunctionsError) {
  deploy("f");
  launcher.init = [this](FakeRuntime& runtime) {
    clock.advance(milliseconds(700));
    launcher.end(runtime.sandbox(), {.exit_code = 3});
  };
  const auto result = invoke("f", "{}");
  EXPECT_EQ(result.phases.queue, Duration(0)) << "its start failed: that was no wait";
  EXPECT_EQ(result.phases.init, milliseconds(700));
  EXPECT_EQ(result.outcome, Outcome::kFunctionError);
  EXPECT_EQ(result.error_type, "Runtime.ExitError");
  EXPECT_THAT(result.payload, HasSubstr("exit status 3 before it asked for its first event"));
}

TEST_F(WorkerTest, ALaunchThatFailsTwiceIsUnavailable) {
  deploy("f");
  const Error broken{ErrorCode::kUnavailable, "no lambent-launcher"};
  launcher.failures = {{1, broken}, {2, broken}};
  const auto result = invoke("f", "{}");
  EXPECT_EQ(result.outcome, Outcome::kRejected);
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->code, ErrorCode::kUnavailable);
  EXPECT_THAT(result.error->message, HasSubstr("no lambent-launcher"));
  EXPECT_EQ(launcher.plans.size(), 2U);
  EXPECT_EQ(invoke("f", "{}").outcome, Outcome::kSucceeded);
}

TEST_F(WorkerTest, AProgramThatCannotBeExecutedIsTheFunctionsErrorAndNotTriedAgain) {
  deploy("f");
  launcher.failures = {{1, Error{ErrorCode::kNotFound, "/var/task/bootstrap: no such file"}}};
  const auto result = invoke("f", "{}");
  EXPECT_EQ(result.outcome, Outcome::kFunctionError);
  EXPECT_EQ(result.error_type, "Runtime.InvalidEntrypoint");
  EXPECT_EQ(launcher.plans.size(), 1U);
}

TEST_F(WorkerTest, AHandlerThatTakesTooLongIsStoppedAndItsLateAnswerIgnored) {
  deploy("f");
  hold_events();
  const auto slow = submit("f", "{}");
  ASSERT_TRUE(until([&] { return !held.empty(); }));
  held[0].first->print("half way\n");
  clock.advance(seconds(3));
  const auto result = await(slow);
  EXPECT_EQ(result.outcome, Outcome::kFunctionError);
  EXPECT_EQ(result.error_type, "Sandbox.Timeout");
  EXPECT_THAT(result.payload, HasSubstr("Task timed out after 3.00 seconds"));
  EXPECT_THAT(result.log_tail, HasSubstr("half way\n"));
  ASSERT_EQ(launcher.kills.size(), 1U);
  if (launcher.running.contains(launcher.kills[0])) answer_held(0, "too late");
  EXPECT_TRUE(until([&] { return launcher.running.empty(); }));
  settle();
  EXPECT_EQ(slow->answers, 1);
}

TEST_F(WorkerTest, AnEventForWhatTakesRequestsIsRefusedWithTheirAddress) {
  FunctionSpec spec = spec_of("web");
  spec.kind = FunctionKind::kHttp;
  spec.handler = "./server";
  deploy(spec);
  spec.name.name = "scores";
  spec.handler = std::string(kModelServer) + " model.onnx";
  deploy(spec);
  const std::pair<const char*, const char*> addresses[] = {{"web", "/f/web/"},
                                                           {"scores", "/v2/models/scores/infer"}};
  for (const auto& [name, address] : addresses) {
    const auto refused = submit(name, "{}");
    ASSERT_TRUE(until([&] { return refused->answer.has_value(); }));
    ASSERT_FALSE(refused->answer->ok());
    EXPECT_THAT(refused->answer->error().message, HasSubstr(address));
  }
}

TEST_F(WorkerTest, ARuntimeThatNeverAsksIsStopped) {
  deploy("f");
  launcher.init = [](FakeRuntime&) {};
  const auto stuck = submit("f", "{}");
  ASSERT_TRUE(until([&] { return !launcher.running.empty(); }));
  clock.advance(limits::kInitTimeout);
  const auto result = await(stuck);
  EXPECT_EQ(result.outcome, Outcome::kFunctionError);
  EXPECT_EQ(result.error_type, "Sandbox.InitTimeout");
  EXPECT_EQ(result.phases.init, limits::kInitTimeout) << "its sandbox was there at once";
  EXPECT_TRUE(until([&] { return launcher.running.empty(); }));
}

// Its sandbox stays for the other calls that it may take, but not for a client that unloaded it.
TEST_F(WorkerTest, WhatIsUnloadedAtWorkEndsOnceItsCallIsCancelled) {
  FunctionSpec spec = spec_of("f");
  spec.http.concurrency = 2;
  deploy(spec);
  hold_events();
  const auto request = request_for("f", "1");
  const auto submission = submit(request);
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  ASSERT_TRUE(worker->unload({kDefaultTenant, "f"}).ok());
  settle();
  ASSERT_TRUE(launcher.kills.empty()) << "it is at work";
  ASSERT_TRUE(worker->cancel(kDefaultTenant, request.id).ok());
  ASSERT_TRUE(until([&] { return submission->answers == 1; }));
  ASSERT_TRUE(until([&] { return launcher.kills.size() == 1; }));
  // The next one starts it again, and it stays.
  const auto next = submit("f", "2");
  ASSERT_TRUE(until([&] { return held.size() == 2; }));
  answer_held(1, "{}");
  await(next);
  settle();
  EXPECT_EQ(launcher.kills.size(), 1u);
}

// One of two in its sandbox times out. That has answered the other one since, so that it would stay
// for more calls.
TEST_F(WorkerTest, WhatIsUnloadedAtWorkEndsOnceItsCallTimesOut) {
  FunctionSpec spec = spec_of("f");
  spec.http.concurrency = 2;
  deploy(spec);
  launcher.script = [this](FakeRuntime& runtime, const Event& event) {
    held.emplace_back(&runtime, event);
    if (held.size() == 1) runtime.ask();
  };
  const auto silent = submit("f", "1");
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  const auto other = submit("f", "2");
  ASSERT_TRUE(until([&] { return held.size() == 2; }));
  ASSERT_EQ(launcher.plans.size(), 1u) << "both are in one sandbox";
  ASSERT_TRUE(worker->unload({kDefaultTenant, "f"}).ok());
  clock.advance(seconds(1));
  held[1].first->answer_last(held[1].second, "{}");
  EXPECT_EQ(await(other).outcome, Outcome::kSucceeded);
  settle();
  ASSERT_TRUE(launcher.kills.empty()) << "it is at work";
  clock.advance(spec.timeout);
  EXPECT_EQ(await(silent).error_type, "Sandbox.Timeout");
  EXPECT_TRUE(until([&] { return launcher.kills.size() == 1; }));
}

// Whichever launch fails, one try is repeated and no caller notices.
class FailingLaunchTest : public WorkerTest, public testing::WithParamInterface<size_t> {};

TEST_P(FailingLaunchTest, EverySubmissionGetsExactlyOneAnswer) {
  for (const char* name : {"a", "b", "c"}) {
    FunctionSpec spec = spec_of(name);
    spec.max_concurrency = 2;
    deploy(spec);
  }
  launcher.failures = {{GetParam(), Error{ErrorCode::kInternal, "no"}}};
  std::vector<std::shared_ptr<Submission>> all;
  for (int i = 0; i < 12; ++i) all.push_back(submit(std::string(1, "abc"[i % 3]), "{}"));
  ASSERT_TRUE(until([&] {
    return std::ranges::all_of(all, [](const auto& each) { return each->answers > 0; });
  }));
  settle();
  EXPECT_GE(launcher.plans.size(), 4U);
  for (const auto& each : all) {
    EXPECT_EQ(each->answers, 1);
    EXPECT_EQ(each->result().outcome, Outcome::kSucceeded);
  }
}

INSTANTIATE_TEST_SUITE_P(EachOfFive, FailingLaunchTest, testing::Range<size_t>(1, 6));

// And if every launch from the n-th on fails, every caller still hears of it, once.
TEST_P(FailingLaunchTest, EverySubmissionIsAnsweredWhenNoLaunchSucceedsAnyMore) {
  for (const char* name : {"a", "b", "c"}) deploy(name);
  for (size_t n = GetParam(); n < 100; ++n) {
    launcher.failures[n] = Error{ErrorCode::kUnavailable, "gone"};
  }
  launcher.script = [this](FakeRuntime& runtime, const Event&) {
    launcher.end(runtime.sandbox(), {.exit_code = 1});
  };
  std::vector<std::shared_ptr<Submission>> all;
  for (int i = 0; i < 12; ++i) all.push_back(submit(std::string(1, "abc"[i % 3]), "{}"));
  EXPECT_TRUE(until([&] {
    return std::ranges::all_of(all, [](const auto& each) { return each->answers > 0; });
  }));
  settle();
  for (const auto& each : all) EXPECT_EQ(each->answers, 1);
}

TEST_F(WorkerTest, AnInvocationThatWaitsIsExplainedWithWhoHasTheGpu) {
  by_utilisation = scheduling::UtilisationOptions{.threshold = 0.9, .most = 1};
  start_worker();
  for (const char* name : {"long", "short"}) {
    FunctionSpec spec = spec_of(name);
    spec.gpu.memory = Bytes::mib(100);
    deploy(spec);
  }
  hold_events();
  const auto running = submit("long", "{}");
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  InvocationRequest request = request_for("short", "{}");
  const InvocationId id = request.id;
  const auto waiting = submit(std::move(request));
  settle();
  const auto text = worker->status().explain_json(kDefaultTenant, id);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("\"phase\":\"queued\""));
  EXPECT_THAT(*text, HasSubstr("\"wait_reason\":\"no_token\""));
  EXPECT_THAT(*text, HasSubstr("\"function\":\"long\""));
  EXPECT_THAT(*text, HasSubstr("\"most_left_seconds\":3.0"));
  EXPECT_EQ(worker->status().explain_json(TenantId{9}, id).error().code, ErrorCode::kNotFound);
  answer_held(0, "1");
  await(running);
  ASSERT_TRUE(until([&] { return held.size() == 2; }));
  EXPECT_THAT(*worker->status().explain_json(kDefaultTenant, id),
              HasSubstr("\"phase\":\"running\""));
  answer_held(1, "1");
  await(waiting);
  EXPECT_EQ(worker->status().explain_json(kDefaultTenant, id).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lambent::worker
