#include "node/worker/pipeline_host.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "node/worker/pipeline_measurement.h"

namespace lambent::worker {

using slice_scheduling::InstanceId;

PipelineHost::PipelineHost(loop::EventLoop& loop, LogSink& log, StageProcessSandboxes& sandboxes,
                           PipelineSetting setting,
                           std::unique_ptr<slice_scheduling::SliceDispatcher> dispatcher,
                           Events events)
    : loop_(loop),
      log_(log),
      sandboxes_(sandboxes),
      setting_(std::move(setting)),
      dispatcher_(std::move(dispatcher)),
      events_(std::move(events)) {
  std::error_code ignored;
  if (!setting_.channel_folder.empty()) {
    std::filesystem::remove_all(setting_.channel_folder, ignored);
  }
  for (const Slice& slice : setting_.slices) handle(slice_scheduling::SliceAdded{slice});
}

PipelineHost::~PipelineHost() {
  loop_.cancel(wake_timer_);
  measurement_.reset();
  instances_.clear();
  std::error_code ignored;
  if (!setting_.channel_folder.empty()) {
    std::filesystem::remove_all(setting_.channel_folder, ignored);
  }
}

// Events and actions.

void PipelineHost::handle(slice_scheduling::Event event) {
  waiting_.push_back(std::move(event));
  if (handling_) return;
  handling_ = true;
  while (!waiting_.empty()) {
    const slice_scheduling::Event next = std::move(waiting_.front());
    waiting_.pop_front();
    std::vector<slice_scheduling::Action> actions;
    const Instant now = loop_.clock().now();
    dispatcher_->handle(next, now, actions);
    waits_.look(dispatcher_->world(), now);
    // An action may bring up events, but those wait.
    for (const slice_scheduling::Action& action : actions) perform(action);
  }
  handling_ = false;
}

void PipelineHost::perform(const slice_scheduling::Action& action) {
  std::visit([this](const auto& each) { perform(each); }, action);
}

void PipelineHost::perform(const slice_scheduling::StartInstance& action) {
  const InstanceId id = action.instance;
  const auto found = functions_.find(action.function);
  if (found == functions_.end()) {
    return handle(
        slice_scheduling::InstanceEnded{id, {ErrorCode::kNotFound, "the function was removed"}});
  }
  PipelineInstance::Events events;
  events.on_ready = [this, id] {
    LiveInstance& live = instances_.at(id);
    live.ready = loop_.clock().now();
    if (live.how == StartClass::kCold) {
      if (const auto owner = functions_.find(live.function); owner != functions_.end()) {
        owner->second.estimate.add_start(*live.ready - live.asked);
      }
    }
    handle(slice_scheduling::InstanceReady{id});
  };
  events.on_unloaded = [this, id] { handle(slice_scheduling::InstanceUnloaded{id}); };
  events.on_job = [this, id](JobEnd end) { job_ended(id, std::move(end)); };
  events.on_ending = [this, id] { handle(slice_scheduling::InstanceEnding{id}); };
  events.on_end = [this, id](InstanceEnd end) { instance_ended(id, std::move(end)); };
  LiveInstance live;
  live.function = action.function;
  live.package = found->second.package;
  live.asked = loop_.clock().now();
  live.instance =
      make_instance(found->second, action.placement, std::to_string(id.value), std::move(events));
  log_.debug("pipeline_start",
             {{"function", found->second.spec.name.name},
              {"instance", static_cast<int64_t>(id.value)},
              {"stages", static_cast<int64_t>(action.placement.partition.stages.size())},
              {"processes", static_cast<int64_t>(action.placement.slices.size())}});
  PipelineInstance& instance = *live.instance;
  instances_[id] = std::move(live);
  instance.start();
}

std::unique_ptr<PipelineInstance> PipelineHost::make_instance(const Function& function,
                                                              const pipeline::Placement& placement,
                                                              const std::string& name,
                                                              PipelineInstance::Events events) {
  PipelineInstance::Request request;
  request.package = function.package;
  request.spec = function.spec;
  request.placement = placement;
  for (const DeviceId device : placement.slices) {
    const Bytes memory = slice_of(device)->shape.memory;
    request.device_memory.push_back(memory - std::min(memory, setting_.context_memory));
  }
  request.folder = setting_.channel_folder + "/" + name;
  request.slot = setting_.largest_value;
  auto instance =
      std::make_unique<PipelineInstance>(loop_, sandboxes_, std::move(request), std::move(events));
  for (const SandboxId sandbox : instance->sandboxes()) stage_processes_[sandbox] = instance.get();
  return instance;
}

void PipelineHost::forget_stage_processes(const PipelineInstance& instance) {
  for (const SandboxId sandbox : instance.sandboxes()) stage_processes_.erase(sandbox);
}

void PipelineHost::perform(const slice_scheduling::StopInstance& action) {
  const auto found = instances_.find(action.instance);
  if (found == instances_.end()) return;  // its end is on the way
  found->second.instance->stop({ErrorCode::kCancelled, "the instance was stopped"},
                               "Sandbox.Stopped");
}

void PipelineHost::perform(const slice_scheduling::UnloadInstance& action) {
  const auto found = instances_.find(action.instance);
  if (found != instances_.end()) found->second.instance->unload();
}

void PipelineHost::perform(const slice_scheduling::LoadInstance& action) {
  const auto found = instances_.find(action.instance);
  if (found == instances_.end()) return;
  found->second.asked = loop_.clock().now();
  found->second.how = StartClass::kGpuCold;
  found->second.ready.reset();
  found->second.instance->load();
}

void PipelineHost::perform(const slice_scheduling::WakeAt& action) {
  loop_.cancel(wake_timer_);
  wake_timer_ = {};
  if (action.when == kNever) return;
  wake_timer_ = loop_.call_at(action.when, [this] { handle(slice_scheduling::TimerFired{}); });
}

// Instances.

void PipelineHost::instance_ended(InstanceId id, InstanceEnd end) {
  const auto found = instances_.find(id);
  LiveInstance live = std::move(found->second);
  instances_.erase(found);
  forget_stage_processes(*live.instance);
  // It is the instance itself that calls: it goes in the next turn.
  loop_.call_after(Duration(0),
                   [gone = std::shared_ptr<PipelineInstance>(std::move(live.instance))] {});
  for (const auto& [job, of] : jobs_) {
    if (of.instance != id) continue;
    for (const InvocationId request : of.requests) note_queued(requests_.at(request));
  }
  std::erase_if(jobs_, [&](const auto& job) { return job.second.instance == id; });
  log_.debug("pipeline_end",
             {{"instance", static_cast<int64_t>(id.value)}, {"error", to_string(end.error)}});
  if (const auto owner = functions_.find(live.function); owner != functions_.end()) {
    owner->second.last_end = end;
    if (end.error_type != "Sandbox.Stopped") {
      log_.warning("pipeline_instance_ended", {{"function", owner->second.spec.name.name},
                                               {"instance", static_cast<int64_t>(id.value)},
                                               {"error", to_string(end.error)}});
    }
  }
  handle(slice_scheduling::InstanceEnded{id, end.error, std::move(end.blamed)});
}

PipelineInstance* PipelineHost::instance_of(SandboxId sandbox) {
  const auto found = stage_processes_.find(sandbox);
  return found != stage_processes_.end() ? found->second : nullptr;
}

void PipelineHost::on_ready(SandboxId sandbox, Duration, Duration) {
  if (PipelineInstance* instance = instance_of(sandbox)) instance->stage_process_ready(sandbox);
}

void PipelineHost::on_answer(SandboxId sandbox, HandlerAnswer answer) {
  if (PipelineInstance* instance = instance_of(sandbox)) {
    instance->stage_process_answered(sandbox, std::move(answer));
  }
}

void PipelineHost::on_end(SandboxEnd end) {
  if (PipelineInstance* instance = instance_of(end.sandbox)) {
    instance->stage_process_ended(std::move(end));
  }
}

void PipelineHost::on_memory_moved(SandboxId sandbox, const MemoryMove& move) {
  if (PipelineInstance* instance = instance_of(sandbox)) instance->memory_moved(sandbox, move);
}

void PipelineHost::on_memory_wanted(SandboxId sandbox, Bytes bytes) {
  sandboxes_.grant_memory(sandbox, bytes);
}

void PipelineHost::device_reading(DeviceId device, bool lost) {
  if (slice_of(device) == nullptr || lost_[device] == lost) return;
  lost_[device] = lost;
  for (auto& [id, function] : functions_) function.status.reset();
  if (!lost) return offer_slice(device);
  log_.warning("slice_lost", {{"gpu", place_name(device)}});
  const Error why{ErrorCode::kUnavailable,
                  "the GPU " + place_name(device) + " was lost or drained"};
  if (measurement_ != nullptr && measurement_->has(device)) return measurement_->cancel(why);
  take_slice(device, why);
}

void PipelineHost::offer_slice(DeviceId device) {
  const bool is_measured = measurement_ != nullptr && measurement_->has(device);
  if (!lost_[device] && !is_measured) handle(slice_scheduling::SliceAdded{*slice_of(device)});
}

void PipelineHost::take_slice(DeviceId device, const Error& why) {
  std::vector<InstanceId> ending;
  for (const auto& [id, live] : instances_) {
    if (is_on(*live.instance, device)) ending.push_back(id);
  }
  // Whoever needs it waits: it comes back, if it can.
  handle(slice_scheduling::SliceLost{.slice = device, .returns = true});
  for (const InstanceId id : ending) {
    const auto found = instances_.find(id);
    if (found != instances_.end()) found->second.instance->abandon(why, "Sandbox.Failure");
  }
}

bool PipelineHost::is_on(const PipelineInstance& instance, DeviceId device) {
  const auto& slices = instance.placement().slices;
  return std::find(slices.begin(), slices.end(), device) != slices.end();
}

// Functions.

const Slice* PipelineHost::slice_of(DeviceId device) const {
  const auto found = std::find_if(setting_.slices.begin(), setting_.slices.end(),
                                  [&](const Slice& slice) { return slice.id == device; });
  return found != setting_.slices.end() ? &*found : nullptr;
}

void PipelineHost::drain() {
  if (measurement_ != nullptr) {
    measurement_->cancel({ErrorCode::kUnavailable, "the worker is stopping; try again elsewhere"});
  }
  handle(slice_scheduling::DrainStarted{});
}

void PipelineHost::end_measurement(FunctionId function, Error why) {
  if (measurement_ != nullptr && measurement_->function() == function) {
    measurement_->cancel(std::move(why));
  }
}

}  // namespace lambent::worker
