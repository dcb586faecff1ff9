// What the tests of PipelineHost stand on: slices of one GPU, a function of two models, and
// sandboxes that only note what was asked of them.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/testing/testing.h"
#include "decide/pipeline/pipeline_json.h"
#include "decide/slice_scheduling/make_policy.h"
#include "node/worker/pipeline_host.h"

namespace lambent::worker {

inline constexpr Bytes kLarge = Bytes::gib(20);
inline constexpr Bytes kSmall = Bytes::gib(10);

inline Slice slice(uint32_t place, const char* name, unsigned multiprocessors, Bytes memory) {
  Slice made;
  made.id = mig_instance(0, place);
  made.uuid = "MIG-" + std::to_string(place);
  made.shape = {name, multiprocessors, memory};
  return made;
}

// A chain of two models, each of which nearly fills a small slice.
inline std::shared_ptr<const PipelinePackage> two_models(const std::string& slo = R"({"ms": 100})",
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
class FakeStageProcesses final : public StageProcessSandboxes {
 public:
  struct StageProcess {
    FunctionSpec spec;
    DeviceId device;
    StageProcessExtras extras;
    std::vector<nlohmann::json> given;
    std::deque<InvocationId> held;  // given and not answered
    Duration timeout{};             // of what it was given last
    bool stopped = false;
    int moved_out = 0;
    int moved_in = 0;
  };
  std::map<SandboxId, StageProcess> stage_processes;
  std::vector<SandboxId> order;
  std::vector<std::string> channels;
  std::vector<uint32_t> channel_slots;
  std::vector<std::string> ended_channels;
  bool refuses_channels = false;
  std::map<SandboxId, Bytes> granted;

  SandboxId next_id() override { return SandboxId(100 + order.size() + reserved++); }
  void start(SandboxId id, const FunctionSpec& spec, DeviceId device,
             const StageProcessExtras& extras) override {
    order.push_back(id);
    --reserved;
    stage_processes[id] = {spec, device, extras};
  }
  void deliver(SandboxId id, InvocationRequest& request, Duration timeout) override {
    stage_processes.at(id).timeout = timeout;
    stage_processes.at(id).given.push_back(nlohmann::json::parse(request.payload));
    stage_processes.at(id).held.push_back(request.id);
  }
  void stop(SandboxId id, Error, std::string) override { stage_processes.at(id).stopped = true; }
  void move_memory_out(SandboxId id) override { ++stage_processes.at(id).moved_out; }
  void move_memory_in(SandboxId id) override { ++stage_processes.at(id).moved_in; }
  void grant_memory(SandboxId id, Bytes bytes) override { granted[id] = bytes; }
  Result<void> make_channel(const std::string& path, uint32_t slots, Bytes) override {
    if (refuses_channels) return Error{ErrorCode::kResourceExhausted, "no memory"};
    channels.push_back(path);
    channel_slots.push_back(slots);
    return {};
  }
  void end_channel(const std::string& path) override { ended_channels.push_back(path); }

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
    events.on_end = [this](InvocationResult end) {
      in_time[end.id] = end.in_time;
      ends[end.id] = std::move(end);
    };
    events.on_profile = [this](FunctionId, std::string profile) { profiles.push_back(profile); };
    if (!policy) policy = slice_scheduling::make_slice_policy("fcfs").value();
    host = std::make_unique<PipelineHost>(
        loop, log, stage_processes, setting,
        std::make_unique<slice_scheduling::SliceDispatcher>(
            std::move(policy), slice_scheduling::SliceDispatcherOptions{}),
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
  // The sandbox of a stage process of the newest instance of so many stage processes.
  SandboxId newest(size_t stage_process, size_t of) const {
    return stage_processes.order[stage_processes.order.size() - of + stage_process];
  }
  void all_ready(size_t of) {
    clock.advance(milliseconds(1));
    for (size_t stage_process = 0; stage_process < of; ++stage_process)
      host->stage_processes().on_ready(newest(stage_process, of), {}, {});
  }
  void answer(SandboxId stage_process, const std::string& payload, bool succeeded = true) {
    clock.advance(milliseconds(40));
    HandlerAnswer made;
    auto& held = stage_processes.stage_processes.at(stage_process).held;
    if (!held.empty()) {
      made.invocation = held.front();
      held.pop_front();
    }
    made.succeeded = succeeded;
    made.payload = payload;
    if (!succeeded) made.error_type = "Runtime.Bad";
    host->stage_processes().on_answer(stage_process, std::move(made));
  }
  // `unseen`: of what it holds, so many at the end never came to it.
  void end_stage_process(SandboxId stage_process,
                         const std::string& why = "Runtime exited with error: signal: 9",
                         size_t unseen = 0) {
    SandboxEnd end;
    const auto& held = stage_processes.stage_processes.at(stage_process).held;
    end.unseen.assign(held.end() - static_cast<ptrdiff_t>(unseen), held.end());
    end.context_is_broken = why.find("CUDA context") != std::string::npos;
    end.by_itself = why.starts_with("Runtime exited") && !why.ends_with("signal: 9");
    end.sandbox = stage_process;
    end.error = {ErrorCode::kInternal, why};
    end.error_type = "Runtime.ExitError";
    end.payload = R"({"errorType": "Runtime.ExitError"})";
    host->stage_processes().on_end(std::move(end));
  }

  std::unique_ptr<slice_scheduling::SlicePolicy> policy;  // none: fcfs
  const std::string first_answer =
      R"({"components": {"blur": {"ms": 20, "ran": 1}}, "send_ms": 1})";
  const std::string last_answer =
      R"({"components": {"classify": {"ms": 20, "ran": 1}}, "results": [{"value": "cat"}]})";

  PipelineSetting setting;
  TemporaryFolder folder;
  NullLogSink log;
  FakeClock clock;
  loop::EventLoop loop{clock};
  FakeStageProcesses stage_processes;
  FunctionSpec spec;
  std::map<InvocationId, InvocationResult> ends;
  std::map<InvocationId, std::optional<bool>> in_time;
  std::vector<std::string> profiles;
  std::unique_ptr<PipelineHost> host;
};

}  // namespace lambent::worker
