#include "worker/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "archive/zip.h"
#include "base/base64.h"
#include "base/sealed_memory.h"
#include "scheduling/make_policy.h"
#include "slice_scheduling/make_policy.h"
#include "worker/testing.h"

namespace lambent::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Event = FakeRuntime::Event;

std::unique_ptr<slice_scheduling::SliceDispatcher> no_slices() {
  return std::make_unique<slice_scheduling::SliceDispatcher>(
      slice_scheduling::make_slice_policy("fcfs").value(),
      slice_scheduling::SliceDispatcherOptions{});
}

// Notes which events were written.
class EventNames final : public LogSink {
 public:
  void write(LogLevel, std::string_view event, std::initializer_list<LogField>) override {
    names.insert(std::string(event));
  }
  bool wants(LogLevel level) const override { return level >= least; }

  LogLevel least = LogLevel::kInfo;
  std::set<std::string> names;
};

class WorkerTest : public testing::Test {
 protected:
  // One submission and what came back; `answers` counts how often.
  struct Submission {
    int answers = 0;
    std::optional<Result<InvocationResult>> answer;
    const InvocationResult& result() const { return answer->value(); }
  };

  void SetUp() override {
    std::filesystem::create_directories(folder.path() + "/source");
    std::ofstream(folder.path() + "/source/bootstrap") << "#!/bin/sh\n";
    zip_base64 = base64_encode(archive::make_zip(folder.path() + "/source").value());
    auto opened = catalog::Catalog::open(
        folder.path() + "/catalog.db", {},
        [this](std::function<void()> task) { return loop.post(std::move(task)); });
    ASSERT_TRUE(opened.ok());
    store = std::move(*opened);
    start_worker();
  }
  void start_worker() {
    worker.reset();
    settle();  // its sandboxes end
    dispatch::DispatchOptions most;
    most.host_concurrency = 4;
    most.fleet.devices.push_back(
        {.id = DeviceId(1), .memory = Bytes::mib(1000), .by_utilisation = by_utilisation});
    auto policy = scheduling::make_policy("mqfq-sticky");
    ASSERT_TRUE(policy.ok());
    WorkerOptions options;
    options.state_folder = folder.path() + "/state";
    options.run_folder = folder.path() + "/run";
    options.device_memory = Bytes::mib(1000);
    options.devices = {{.index = 0, .uuid = "GPU-12345678", .name = "Fake"}};
    options.most_payloads = most_payloads;
    options.longest_gpu_run = longest_gpu_run;
    worker = std::make_unique<Worker>(
        Worker::Foundations{loop, log, random, launcher, *store, counts, nullptr, &objects},
        options, std::make_unique<dispatch::Dispatcher>(most, std::move(*policy)), no_slices());
    ASSERT_TRUE(worker->recover().ok());
  }

  template <typename Condition>
  [[nodiscard]] bool until(Condition done) {
    return turn_until(loop, done);
  }
  // Lets everything that is under way come to its end, where nothing more is expected.
  void settle() {
    for (int i = 0; i < 20; ++i) loop.run_once(Duration(0));
  }

  FunctionSpec spec_of(const std::string& name) const {
    FunctionSpec spec;
    spec.name = {kDefaultTenant, name};
    spec.timeout = seconds(3);
    return spec;
  }
  Result<FunctionSpec> await_change(
      const std::function<void(InvocationService::Callback<FunctionSpec>)>& start) {
    std::optional<Result<FunctionSpec>> answer;
    start([&](Result<FunctionSpec> result) { answer = std::move(result); });
    EXPECT_TRUE(until([&] { return answer.has_value(); }));
    return answer.value_or(Error{ErrorCode::kUnknown, "no answer"});
  }
  Result<void> await_done(const std::function<void(InvocationService::Callback<void>)>& start) {
    std::optional<Result<void>> answer;
    start([&](Result<void> result) { answer = std::move(result); });
    EXPECT_TRUE(until([&] { return answer.has_value(); }));
    return answer.value_or(Error{ErrorCode::kUnknown, "no answer"});
  }
  Result<void> drain(const std::string& gpu, const std::string& reason) {
    return await_done([&](auto done) { worker->drain_devices(gpu, reason, std::move(done)); });
  }
  Result<void> undrain(const std::string& gpu) {
    return await_done([&](auto done) { worker->undrain_devices(gpu, std::move(done)); });
  }
  FunctionSpec deploy(FunctionSpec spec) {
    auto deployed = await_change([&](auto done) {
      worker->create_function({std::move(spec), zip_base64}, std::move(done));
    });
    EXPECT_TRUE(deployed.ok());
    return std::move(*deployed);
  }
  FunctionSpec deploy(const std::string& name) { return deploy(spec_of(name)); }

  InvocationRequest request_for(const std::string& function, const std::string& payload) {
    InvocationRequest request;
    request.id = new_invocation_id(random);
    request.function = {kDefaultTenant, function};
    request.payload = payload;
    return request;
  }
  std::shared_ptr<Submission> submit(InvocationRequest request) {
    auto submission = std::make_shared<Submission>();
    worker->submit(std::move(request), [submission](Result<InvocationResult> result) {
      ++submission->answers;
      submission->answer = std::move(result);
    });
    return submission;
  }
  std::shared_ptr<Submission> submit(const std::string& function, const std::string& payload) {
    return submit(request_for(function, payload));
  }
  InvocationResult await(const std::shared_ptr<Submission>& submission) {
    EXPECT_TRUE(until([&] { return submission->answers > 0; }));
    EXPECT_EQ(submission->answers, 1);
    EXPECT_TRUE(submission->answer && submission->answer->ok());
    return submission->answer && submission->answer->ok() ? submission->result()
                                                          : InvocationResult{};
  }
  InvocationResult invoke(const std::string& function, const std::string& payload) {
    return await(submit(function, payload));
  }
  // From now on handlers keep their events until the test answers them.
  void hold_events() {
    launcher.script = [this](FakeRuntime& runtime, const Event& event) {
      held.emplace_back(&runtime, event);
    };
  }
  void answer_held(size_t index, std::string_view payload) {
    held[index].first->answer(held[index].second, payload);
  }

  std::optional<scheduling::UtilisationOptions> by_utilisation;
  Duration longest_gpu_run = limits::kMostTimeout;
  TemporaryFolder folder;
  FakeClock clock;
  loop::EventLoop loop{clock};
  EventNames log;
  SeededRandom random{7};
  metrics::WorkerMetrics counts{"test"};
  FakeLauncher launcher{loop};
  std::unique_ptr<catalog::Catalog> store;
  objects::ObjectStore objects{loop, log, [](auto, auto) { return false; }, {}};
  std::string zip_base64;
  Bytes most_payloads = Bytes::mib(1024);
  std::vector<std::pair<FakeRuntime*, Event>> held;
  std::unique_ptr<Worker> worker;
};

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
  const auto status = worker->sandbox_status(kDefaultTenant);
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

TEST_F(WorkerTest, CodeThatIsNoBase64IsRefusedAndMayBeSentAgain) {
  zip_base64[1] = '*';
  auto refused = await_change([&](auto done) {
    worker->create_function({spec_of("f"), zip_base64}, std::move(done));
  });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("base64"));
  EXPECT_FALSE(worker->find_function({kDefaultTenant, "f"}).ok());
  zip_base64[1] = 'E';
  deploy("f");
  EXPECT_EQ(invoke("f", "1").payload, "1");
}

TEST_F(WorkerTest, PayloadsOfLiveInvocationsTogetherStayBelowTheirLimit) {
  most_payloads = Bytes(1000);
  start_worker();
  deploy("f");
  hold_events();
  const auto running = submit("f", std::string(600, '1'));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  const auto refused = submit("f", std::string(600, '1'));
  ASSERT_EQ(refused->answers, 1);
  EXPECT_EQ(refused->answer->error().code, ErrorCode::kResourceExhausted);
  const auto small = submit("f", std::string(300, '1'));
  answer_held(0, "1");
  await(running);
  ASSERT_TRUE(until([&] { return held.size() == 2; }));
  answer_held(1, "2");
  await(small);
  // All of it is free again, however the payload left.
  launcher.script = [](FakeRuntime& runtime, const Event& event) { runtime.answer(event, "3"); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(invoke("f", std::string(999, '1')).payload, "3");
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
    launcher.end(runtime.sandbox(), {.exit_code = 3});
  };
  const auto result = invoke("f", "{}");
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

TEST_F(WorkerTest, ARuntimeThatNeverAsksIsStopped) {
  deploy("f");
  launcher.init = [](FakeRuntime&) {};
  const auto stuck = submit("f", "{}");
  ASSERT_TRUE(until([&] { return !launcher.running.empty(); }));
  clock.advance(limits::kInitTimeout);
  const auto result = await(stuck);
  EXPECT_EQ(result.outcome, Outcome::kFunctionError);
  EXPECT_EQ(result.error_type, "Sandbox.InitTimeout");
  EXPECT_TRUE(until([&] { return launcher.running.empty(); }));
}

TEST_F(WorkerTest, AnUpdateRetiresTheIdleSandbox) {
  FunctionSpec spec = deploy("f");
  invoke("f", "{}");
  spec.description = "changed";
  const auto updated = await_change([&](auto done) {
    worker->update_function({spec, ""}, std::move(done));
  });
  ASSERT_TRUE(updated.ok());
  EXPECT_EQ(updated->revision, 2U);
  EXPECT_TRUE(until([&] { return launcher.running.empty(); }));
  const auto result = invoke("f", "{}");
  EXPECT_EQ(result.start, StartClass::kCold);
  EXPECT_EQ(result.revision, 2U);
  // The spec that the first update was made from is no longer the current one.
  const auto stale = await_change([&](auto done) {
    worker->update_function({spec, ""}, std::move(done));
  });
  ASSERT_FALSE(stale.ok());
  EXPECT_EQ(stale.error().code, ErrorCode::kAborted);
}

TEST_F(WorkerTest, RemovingAFunctionRejectsWhatIsQueuedAndLetsTheRunningOneFinish) {
  deploy("f");
  hold_events();
  const auto running = submit("f", "1");
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  const auto second = submit("f", "2");
  const auto third = submit("f", "3");
  ASSERT_TRUE(await_change([&](auto done) {
                worker->remove_function({kDefaultTenant, "f"}, std::move(done));
              }).ok());
  for (const auto& queued : {second, third}) {
    const auto result = await(queued);
    EXPECT_EQ(result.outcome, Outcome::kRejected);
    EXPECT_EQ(result.error->code, ErrorCode::kNotFound);
  }
  EXPECT_EQ(running->answers, 0);
  answer_held(0, "done");
  EXPECT_EQ(await(running).payload, "done");
  EXPECT_TRUE(until([&] { return launcher.running.empty(); }));
  EXPECT_FALSE(worker->find_function({kDefaultTenant, "f"}).ok());
}

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

TEST_F(WorkerTest, AFunctionWithAGpuHasALedgerAsLongAsItsSandboxLives) {
  FunctionSpec spec = spec_of("g");
  spec.gpu.memory = Bytes::mib(300);
  deploy(spec);
  EXPECT_EQ(invoke("g", "{}").device, DeviceId(1));
  const std::string ledger = folder.path() + "/run/ledger-1";
  EXPECT_TRUE(std::filesystem::exists(ledger));
  launcher.end(SandboxId(1), {.exit_code = 0});
  EXPECT_TRUE(until([&] { return !std::filesystem::exists(ledger); }));

  spec = spec_of("too-large");
  spec.gpu.memory = Bytes::mib(1001);
  const auto refused = await_change([&](auto done) {
    worker->create_function({spec, zip_base64}, std::move(done));
  });
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

// Whichever launch fails, one try is repeated and nobody notices.
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

// And if every launch from the n-th on fails, everybody still hears of it, once.
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

TEST_F(WorkerTest, ALostDeviceLosesItsSandboxesAndServesAgainOnceItIsBack) {
  FunctionSpec spec = spec_of("g");
  spec.gpu.memory = Bytes::mib(300);
  deploy(spec);
  invoke("g", "{}");
  EXPECT_EQ(launcher.running.size(), 1u);

  worker->device_reading({.index = 0, .health = protocol::DeviceHealth::kLost});
  EXPECT_TRUE(until([&] { return launcher.running.empty(); }));
  const auto waiting = submit("g", "{}");
  settle();
  EXPECT_EQ(waiting->answers, 0);
  worker->update_gauges();
  EXPECT_NE(counts.text().find("lambent_gpu_healthy{gpu=\"0\"} 0"), std::string::npos)
      << counts.text();

  worker->device_reading({.index = 0});
  const InvocationResult result = await(waiting);
  EXPECT_EQ(result.start, StartClass::kCold);
  EXPECT_EQ(result.wait_reason, "no_device");
  EXPECT_TRUE(log.names.contains("gpu_sick"));
  EXPECT_TRUE(log.names.contains("gpu_well"));
}

TEST_F(WorkerTest, ASilentMonitorMeansNoNewWorkAndAMissingReadingALostDevice) {
  FunctionSpec spec = spec_of("g");
  spec.gpu.memory = Bytes::mib(300);
  deploy(spec);
  invoke("g", "{}");
  worker->devices_silent();
  EXPECT_THAT(worker->devices_json(), HasSubstr("\"state\":\"silent\""));
  const auto waiting = submit("g", "{}");
  settle();
  EXPECT_EQ(waiting->answers, 0);
  EXPECT_EQ(launcher.running.size(), 1u) << "what is there stays";
  worker->devices_read({{.index = 0}});
  EXPECT_EQ(await(waiting).outcome, Outcome::kSucceeded);

  worker->devices_read({});
  EXPECT_THAT(worker->devices_json(), HasSubstr("\"state\":\"lost\""));
  EXPECT_TRUE(until([&] { return launcher.running.empty(); }));
  worker->devices_silent();
  EXPECT_THAT(worker->devices_json(), HasSubstr("\"state\":\"lost\""));
  worker->devices_read({{.index = 0}});
  EXPECT_THAT(worker->devices_json(), HasSubstr("\"state\":\"healthy\""));
}

TEST_F(WorkerTest, ASickDeviceLetsWhatRunsEndAndStopsWhatIsIdle) {
  FunctionSpec spec = spec_of("g");
  spec.gpu.memory = Bytes::mib(300);
  deploy(spec);
  spec.name.name = "idle";
  deploy(spec);
  invoke("idle", "{}");
  const auto answers = launcher.script;
  hold_events();
  const auto running = submit("g", "{}");
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  ASSERT_EQ(launcher.running.size(), 2u);

  worker->devices_faulted({{0, 31, protocol::FaultGravity::kApplication, "page fault"}});
  settle();
  EXPECT_EQ(launcher.running.size(), 2u) << "what a function did wrong drains nothing";
  worker->devices_faulted({{0, 48, protocol::FaultGravity::kDevice, "double-bit ECC error"}});
  EXPECT_TRUE(until([&] { return launcher.running.size() == 1; })) << "the idle one goes";
  const auto waiting = submit("idle", "{}");
  answer_held(0, "done");
  EXPECT_EQ(await(running).payload, "done");
  EXPECT_TRUE(until([&] { return launcher.running.empty(); })) << "and the other after its run";
  settle();
  EXPECT_EQ(waiting->answers, 0);

  const std::string devices = worker->devices_json();
  EXPECT_THAT(devices, HasSubstr("\"state\":\"drained\""));
  EXPECT_THAT(devices, HasSubstr("\"reason\":\"Xid 48: double-bit ECC error\""));
  worker->update_gauges();
  EXPECT_THAT(counts.text(), HasSubstr("lambent_gpu_healthy{gpu=\"0\"} 0"));
  EXPECT_THAT(counts.text(), HasSubstr("lambent_gpu_xid_errors_total{gpu=\"0\",xid=\"31\"} 1"));
  EXPECT_TRUE(log.names.contains("gpu_application_error"));
  EXPECT_TRUE(log.names.contains("gpu_sick"));

  launcher.script = answers;
  EXPECT_TRUE(undrain("0").ok());
  EXPECT_EQ(await(waiting).start, StartClass::kCold);
  EXPECT_THAT(worker->devices_json(), HasSubstr("\"state\":\"healthy\""));
}

TEST_F(WorkerTest, TheOperatorDrainsDevicesByNameAndAWrongNameSaysWhichThereAre) {
  EXPECT_TRUE(drain("GPU-12345678", "new fan").ok());
  EXPECT_THAT(worker->devices_json(), HasSubstr("by the operator: new fan"));
  EXPECT_TRUE(undrain("0").ok());
  const auto unknown = drain("7", "");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.error().message, HasSubstr("there are 0"));
  worker->device_reading({.index = 0, .health = protocol::DeviceHealth::kLost});
  EXPECT_EQ(undrain("0").error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(WorkerTest, WhatIsHeldAgainstADeviceAndWhatWasAcceptedOutliveTheWorker) {
  const auto standing = [&] { return worker->devices_json(); };
  EXPECT_TRUE(drain("0", "new fan").ok());
  start_worker();
  EXPECT_THAT(standing(), HasSubstr("by the operator: new fan"));
  worker->device_reading({.uncorrected_errors = 2});
  EXPECT_TRUE(undrain("0").ok());
  start_worker();
  EXPECT_THAT(standing(), HasSubstr("\"state\":\"healthy\""));
  worker->device_reading({.uncorrected_errors = 2});
  EXPECT_THAT(standing(), HasSubstr("\"state\":\"healthy\"")) << "so many were accepted";
  worker->devices_faulted({{0, 119, protocol::FaultGravity::kDevice, "no answer"}});
  start_worker();
  EXPECT_THAT(standing(), HasSubstr("Xid 119: no answer"));
  worker->device_reading({.uncorrected_errors = 2});
  EXPECT_THAT(standing(), HasSubstr("\"state\":\"drained\"")) << "it was not reset";
  worker->device_reading({.uncorrected_errors = 0});
  EXPECT_THAT(standing(), HasSubstr("\"state\":\"healthy\"")) << "now it was";
}

TEST_F(WorkerTest, TheHostServesAFunctionThatNoGpuIsLargeEnoughFor) {
  FunctionSpec spec = spec_of("large");
  spec.gpu.memory = Bytes::gib(2);
  const auto refused = await_change([&](auto done) {
    worker->create_function({spec, zip_base64}, std::move(done));
  });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  spec.cpu_variant = CpuVariant{};
  deploy(spec);
  EXPECT_EQ(invoke("large", "{}").device, DeviceId{});
}

TEST_F(WorkerTest, ADeviceTakesMoreWhileItsUtilisationIsLowAndNoMoreWhenItIsHigh) {
  by_utilisation = scheduling::UtilisationOptions{.threshold = 0.9, .most = 3};
  start_worker();
  for (const char* name : {"a", "b", "c", "d"}) {
    FunctionSpec spec = spec_of(name);
    spec.gpu.memory = Bytes::mib(100);
    deploy(spec);
  }
  hold_events();
  const auto reads = [&](uint8_t busy) { worker->device_reading({.busy_percent = busy}); };
  reads(95);
  std::vector<std::shared_ptr<Submission>> all;
  for (const char* name : {"a", "b", "c", "d"}) all.push_back(submit(name, "{}"));
  settle();
  EXPECT_TRUE(until([&] { return held.size() == 1; }));
  settle();
  EXPECT_EQ(held.size(), 1u) << "one may always run";
  EXPECT_THAT(worker->devices_json(), HasSubstr("\"tokens\":1"));
  EXPECT_THAT(worker->devices_json(), HasSubstr("\"tokens_by\":\"utilization\""));

  reads(60);
  EXPECT_TRUE(until([&] { return held.size() == 2; }));
  settle();
  EXPECT_EQ(held.size(), 2u) << "60 % and a third for the one that was begun are over 90 %";
  reads(10);
  EXPECT_TRUE(until([&] { return held.size() == 3; }));
  reads(0);
  settle();
  EXPECT_EQ(held.size(), 3u) << "never more than the most";
  worker->update_gauges();
  EXPECT_THAT(counts.text(), HasSubstr("lambent_gpu_tokens{gpu=\"0\",kind=\"all\"} 3"));

  answer_held(0, "1");
  EXPECT_TRUE(until([&] { return held.size() == 4; }));
  for (size_t i = 1; i < 4; ++i) answer_held(i, "1");
  for (const auto& each : all) await(each);
}

TEST_F(WorkerTest, AFunctionThatTakesTurnsOnAGpuMayRunNoLongerThanTheWorkerLetsIt) {
  longest_gpu_run = seconds(60);
  start_worker();
  FunctionSpec spec = spec_of("long");
  spec.timeout = seconds(61);
  deploy(spec);  // without a GPU it may
  spec.name.name = "gpu";
  spec.gpu.memory = Bytes::mib(100);
  const auto refused = await_change([&](auto done) {
    worker->create_function({spec, zip_base64}, std::move(done));
  });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("61 s"));
  EXPECT_THAT(refused.error().message, HasSubstr("60 s"));
  spec.timeout = seconds(60);
  deploy(spec);

  longest_gpu_run = seconds(20);
  start_worker();
  EXPECT_EQ(worker->find_function(spec.name)->timeout, seconds(20)) << "it was deployed before";
  EXPECT_EQ(worker->find_function({kDefaultTenant, "long"})->timeout, seconds(61));
  EXPECT_TRUE(log.names.contains("function_timeout_capped"));
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
  const auto text = worker->explain_json(kDefaultTenant, id);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("\"phase\":\"queued\""));
  EXPECT_THAT(*text, HasSubstr("\"wait_reason\":\"no_token\""));
  EXPECT_THAT(*text, HasSubstr("\"function\":\"long\""));
  EXPECT_THAT(*text, HasSubstr("\"most_left_seconds\":3.0"));
  EXPECT_EQ(worker->explain_json(TenantId{9}, id).error().code, ErrorCode::kNotFound);
  answer_held(0, "1");
  await(running);
  ASSERT_TRUE(until([&] { return held.size() == 2; }));
  EXPECT_THAT(*worker->explain_json(kDefaultTenant, id), HasSubstr("\"phase\":\"running\""));
  answer_held(1, "1");
  await(waiting);
  EXPECT_EQ(worker->explain_json(kDefaultTenant, id).error().code, ErrorCode::kNotFound);
}

// An object that exists.
ObjectId put_object(objects::ObjectStore& objects, uint32_t number, const std::string& bytes) {
  const ObjectId id{{1, 1}, number};
  EXPECT_TRUE(
      objects.store(kDefaultTenant, id, raw_tensor(Bytes(bytes.size())), *sealed_memory(bytes))
          .ok());
  return id;
}

std::string bytes_of(objects::ObjectStore& objects, ObjectId id) {
  std::string bytes = "nothing yet";
  objects.open(kDefaultTenant, id, Instant{}, [&](Result<objects::OpenedObject> opened) {
    bytes = opened.ok() ? *read_memory(opened->memfd.get(), Bytes(0), opened->size)
                        : to_string(opened.error());
  });
  return bytes;
}

TEST_F(WorkerTest, AnInvocationWaitsForWhatAnotherMakes) {
  deploy("f");
  deploy("g");
  hold_events();
  InvocationRequest first = request_for("f", "1");
  first.outputs = 1;
  const ObjectId made{first.id, 0};
  submit(std::move(first));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  InvocationRequest second = request_for("g", "2");
  second.needs = {made, put_object(objects, 0, "x"), made};
  const auto waiting = submit(std::move(second));
  settle();
  EXPECT_EQ(waiting->answers, 0);
  EXPECT_EQ(held.size(), 1U);
  answer_held(0, "the result");
  ASSERT_TRUE(until([&] { return held.size() == 2; }));
  EXPECT_EQ(bytes_of(objects, made), "the result");
  EXPECT_EQ(objects.status(kDefaultTenant, made)->references, 1U);
  answer_held(1, "done");
  EXPECT_EQ(await(waiting).payload, "done");
  EXPECT_EQ(objects.status(kDefaultTenant, made)->references, 0U);
}

TEST_F(WorkerTest, AFailureReachesTheEndOfTheChainWithItsCause) {
  deploy("f");
  launcher.script = [](FakeRuntime& runtime, const Event& event) {
    runtime.fail(event, R"({"errorMessage":"seven is no prime"})", "ValueError");
  };
  InvocationRequest request = request_for("f", "1");
  request.outputs = 1;
  ObjectId last{request.id, 0};
  submit(std::move(request));
  std::vector<std::shared_ptr<Submission>> chain;
  for (int i = 0; i < 1000; ++i) {
    InvocationRequest next = request_for("f", "2");
    next.needs = {last};
    next.outputs = 1;
    last = {next.id, 0};
    chain.push_back(submit(std::move(next)));
  }
  ASSERT_TRUE(until([&] { return chain.back()->answers == 1; }));
  EXPECT_EQ(chain[0]->result().outcome, Outcome::kRejected);
  EXPECT_THAT(chain[0]->result().error->message, HasSubstr(".0: function 'f' failed: "));
  EXPECT_THAT(chain[0]->result().error->message, HasSubstr("seven is no prime"));
  EXPECT_THAT(chain.back()->result().error->message, HasSubstr("seven is no prime"));
  EXPECT_LT(chain.back()->result().error->message.size(), 1200U);
  EXPECT_THAT(bytes_of(objects, last), HasSubstr("seven is no prime"));
  EXPECT_EQ(objects.statistics().expected, 0U);
}

TEST_F(WorkerTest, WhatCannotBeNeededIsRefusedAtOnce) {
  deploy("f");
  InvocationRequest unknown = request_for("f", "1");
  unknown.needs = {ObjectId{{9, 9}, 9}};
  const auto refused = submit(std::move(unknown));
  ASSERT_EQ(refused->answers, 1);
  EXPECT_EQ(refused->answer->error().code, ErrorCode::kNotFound);
  EXPECT_THAT(refused->answer->error().message, HasSubstr("needs 00000000-0000-0009"));
  InvocationRequest greedy = request_for("f", "1");
  greedy.outputs = limits::kOutputs + 1;
  EXPECT_EQ(submit(std::move(greedy))->answer->error().code, ErrorCode::kInvalidArgument);
  InvocationRequest many = request_for("f", "1");
  for (uint32_t i = 0; i <= limits::kNeeds; ++i) many.needs.push_back(put_object(objects, i, "x"));
  EXPECT_EQ(submit(std::move(many))->result().error->code, ErrorCode::kInvalidArgument);
}

TEST_F(WorkerTest, AClientThatLeavesEndsItsWaitForObjects) {
  deploy("f");
  const ObjectId object{{1, 1}, 7};
  ASSERT_TRUE(objects.expect(kDefaultTenant, object).ok());
  InvocationRequest request = request_for("f", "1");
  request.needs = {object};
  const InvocationId id = request.id;
  const auto waiting = submit(std::move(request));
  worker->forget(id);
  EXPECT_EQ(waiting->result().error->code, ErrorCode::kCancelled);
  EXPECT_EQ(objects.status(kDefaultTenant, object)->references, 0U);
  EXPECT_EQ(objects.statistics().waiting, 0U);
}

TEST_F(WorkerTest, WaitingForObjectsEndsAfterAnHourOrWhenTheWorkerStops) {
  deploy("f");
  const ObjectId object{{1, 1}, 7};
  ASSERT_TRUE(objects.expect(kDefaultTenant, object).ok());
  InvocationRequest request = request_for("f", "1");
  request.needs = {object};
  const auto late = submit(request);
  clock.advance(limits::kNeedsTimeout);
  ASSERT_TRUE(until([&] { return late->answers == 1; }));
  EXPECT_EQ(late->result().error->code, ErrorCode::kDeadlineExceeded);
  request.id = new_invocation_id(random);
  const auto stopped = submit(request);
  bool drained = false;
  worker->drain([&] { drained = true; });
  EXPECT_EQ(stopped->result().error->code, ErrorCode::kUnavailable);
  ASSERT_TRUE(until([&] { return drained; }));
}

TEST_F(WorkerTest, OnlySoManyInvocationsWaitForObjects) {
  deploy("f");
  const ObjectId object{{1, 1}, 7};
  ASSERT_TRUE(objects.expect(kDefaultTenant, object).ok());
  InvocationRequest request = request_for("f", "1");
  request.needs = {object};
  for (size_t i = 0; i < limits::kInvocationsWaiting; ++i) {
    request.id = new_invocation_id(random);
    submit(request);
  }
  request.id = new_invocation_id(random);
  EXPECT_EQ(submit(request)->result().error->code, ErrorCode::kResourceExhausted);
  // Who needs nothing, or what is there, does not wait.
  InvocationRequest future = request_for("f", "2");
  future.outputs = 1;
  EXPECT_EQ(await(submit(std::move(future))).outcome, Outcome::kSucceeded);
  InvocationRequest ready = request_for("f", "3");
  ready.needs = {put_object(objects, 0, "x")};
  EXPECT_EQ(await(submit(std::move(ready))).outcome, Outcome::kSucceeded);
}

TEST_F(WorkerTest, ARepeatGetsItsAnswerThoughItsObjectsAreGone) {
  deploy("f");
  for (const auto kind : {InvocationKind::kSynchronous, InvocationKind::kAsynchronous}) {
    const ObjectId object = put_object(objects, 0, "x");
    InvocationRequest request = request_for("f", "1");
    request.kind = kind;
    request.idempotency_key = "sdk-4";
    request.needs = {object};
    const InvocationId first = await(submit(request)).id;
    ASSERT_TRUE(until([&] { return objects.status(kDefaultTenant, object)->references == 0; }));
    ASSERT_TRUE(objects.remove(kDefaultTenant, object).ok());
    request.id = new_invocation_id(random);
    EXPECT_EQ(await(submit(request)).id, first);
    // Another request is refused as ever.
    request.id = new_invocation_id(random);
    request.idempotency_key = "sdk-5";
    const auto refused = submit(request);
    ASSERT_TRUE(until([&] { return refused->answers == 1; }));
    EXPECT_EQ(refused->answer->error().code, ErrorCode::kNotFound);
  }
}

TEST_F(WorkerTest, AnAsynchronousInvocationWhoseObjectsWereLostSaysSo) {
  deploy("f");
  const ObjectId object{{1, 1}, 7};
  ASSERT_TRUE(objects.expect(kDefaultTenant, object).ok());
  InvocationRequest request = request_for("f", "1");
  request.kind = InvocationKind::kAsynchronous;
  request.needs = {object};
  const InvocationId id = request.id;
  const auto accepted = submit(std::move(request));
  ASSERT_TRUE(until([&] { return accepted->answers == 1; }));
  // As after a restart: the next worker knows the invocation, but not the object.
  worker.reset();
  objects.fail(kDefaultTenant, object, {ErrorCode::kInternal, "gone"});
  start_worker();
  std::optional<InvocationResult> result;
  ASSERT_TRUE(until([&] {
    worker->async_result(kDefaultTenant, id, [&](Result<std::optional<InvocationResult>> found) {
      if (found.ok()) result = *found;
    });
    return result.has_value();
  }));
  EXPECT_EQ(result->outcome, Outcome::kRejected);
  EXPECT_THAT(result->error->message, HasSubstr("needs 00000000-0000-0001"));
}

}  // namespace
}  // namespace lambent::worker
