// A worker as its tests see it: with a catalog on disk, a launcher that starts fake runtimes, one
// device and a clock that the test turns. Each test speaks to it as a client would.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>

#include "core/archive/zip.h"
#include "core/base/base64.h"
#include "core/domain/function_limits.h"
#include "core/domain/limits.h"
#include "decide/scheduling/make_policy.h"
#include "decide/slice_scheduling/make_policy.h"
#include "node/worker/testing/testing.h"
#include "node/worker/worker.h"

namespace lambent::worker {

inline std::unique_ptr<slice_scheduling::SliceDispatcher> no_slices() {
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

class WorkerTest : public ::testing::Test {
 protected:
  using Event = FakeRuntime::Event;

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
    auto opened = catalog::Catalog::open(folder.path() + "/catalog.db", {},
                                         [this](std::function<void()> task) {
                                           return !catalog_is_held && loop.post(std::move(task));
                                         });
    ASSERT_TRUE(opened.ok());
    store = std::move(*opened);
    start_worker();
  }
  void start_worker() {
    worker.reset();
    settle();  // its sandboxes end
    dispatch::DispatchOptions most;
    most.host_concurrency = 4;
    most.queued_per_function = queued_per_function;
    most.queued_invocations = queued_invocations;
    most.fleet.devices.push_back(
        {.id = DeviceId(1), .memory = Bytes::mib(1000), .by_utilisation = by_utilisation});
    auto policy = scheduling::make_policy("mqfq-sticky");
    ASSERT_TRUE(policy.ok());
    WorkerOptions options;
    options.state_folder = folder.path() + "/state";
    options.run_folder = folder.path() + "/run";
    options.device_memory = Bytes::mib(1000);
    options.context_memory = context_memory;
    options.executors.context_memory = context_memory;
    options.sandboxes.forward_folder = forward_folder;
    if (calls_cublas) options.executors.cublas = {"/usr/lib/libcublas.so.12"};
    options.devices = {{.index = 0, .uuid = "GPU-12345678", .name = "Fake"}};
    options.most_payloads = most_payloads;
    options.longest_gpu_run = longest_gpu_run;
    options.gpu_serves_one_tenant = gpu_serves_one_tenant;
    options.workflows.live = live_workflows;
    options.pipelines.shared = {.shape = {"Fake", 100, Bytes::mib(1000)},
                                .longest_run = longest_gpu_run};
    worker = std::make_unique<Worker>(
        Worker::Dependencies{loop, log, random, launcher, *store, counts, nullptr, &objects},
        options, std::make_unique<dispatch::Dispatcher>(most, std::move(*policy)), no_slices());
    ASSERT_TRUE(worker->recover().ok());
  }

  template <typename Condition>
  [[nodiscard]] bool until(Condition done) {
    return turn_until(loop, done);
  }
  // While the clock goes on.
  template <typename Condition>
  [[nodiscard]] bool in_time(Condition done) {
    return until([&] {
      clock.advance(milliseconds(1));
      return done();
    });
  }
  // Lets everything that is under way come to its end, where nothing more is expected.
  void settle() {
    for (int i = 0; i < 20; ++i) loop.run_once(Duration(0));
  }

  FunctionSpec spec_of(const std::string& name) const {
    FunctionSpec spec;
    spec.name = {kDefaultTenant, name};
    spec.timeout = seconds(3);
    spec.max_concurrency = 1;  // so that a test knows what runs and what waits
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
    return await_done([&](auto done) { worker->devices().drain(gpu, reason, std::move(done)); });
  }
  Result<void> undrain(const std::string& gpu) {
    return await_done([&](auto done) { worker->devices().undrain(gpu, std::move(done)); });
  }
  FunctionSpec deploy(FunctionSpec spec) {
    auto deployed = await_change([&](auto done) {
      worker->create_function({std::move(spec), zip_base64}, std::move(done));
    });
    EXPECT_TRUE(deployed.ok()) << (deployed.ok() ? "" : to_string(deployed.error()));
    return std::move(*deployed);
  }
  FunctionSpec deploy(const std::string& name) { return deploy(spec_of(name)); }
  FunctionSpec deploy_workflow(const std::string& name, const std::string& component) {
    std::ofstream(folder.path() + "/source/graph.json")
        << R"({"components": [)" << component << "]}";
    zip_base64 = base64_encode(archive::make_zip(folder.path() + "/source").value());
    FunctionSpec spec = spec_of(name);
    spec.kind = FunctionKind::kWorkflow;
    spec.handler = "graph.json";
    spec.timeout = seconds(30);
    return deploy(std::move(spec));
  }

  InvocationRequest later(const std::string& function, const std::string& payload) {
    InvocationRequest request = request_for(function, payload);
    request.kind = InvocationKind::kAsynchronous;
    return request;
  }
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
  // Of the oldest asynchronous invocation without a result, as the catalog has it.
  unsigned attempts_of_first() {
    const auto pending = store->pending_async(0, 1);
    return pending.ok() && !pending->empty() ? pending->front().attempts : 0;
  }
  bool is_running(InvocationId id) const {
    const auto live = worker->activity().live(kDefaultTenant, 10);
    return std::ranges::any_of(
        live, [&](const auto& each) { return each.id == id && each.phase == "running"; });
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
  size_t queued_per_function = limits::kQueuedPerFunction;
  size_t queued_invocations = limits::kQueuedInvocations;
  size_t live_workflows = workflow::limits::kLiveRuns;
  Duration longest_gpu_run = limits::kMostTimeout;
  bool gpu_serves_one_tenant = false;
  Bytes context_memory;
  std::string forward_folder;
  bool calls_cublas = false;
  TemporaryFolder folder;
  FakeClock clock;
  loop::EventLoop loop{clock};
  EventNames log;
  SeededRandom random{7};
  metrics::WorkerMetrics counts{"test"};
  FakeLauncher launcher{loop};
  std::atomic<bool> catalog_is_held = false;  // what it did it does not tell until later
  std::unique_ptr<catalog::Catalog> store;
  objects::ObjectStore objects{loop, log, [](auto, auto) { return false; }, {}};
  std::string zip_base64;
  Bytes most_payloads = Bytes::mib(1024);
  std::vector<std::pair<FakeRuntime*, Event>> held;
  std::unique_ptr<Worker> worker;
};

}  // namespace lambent::worker
