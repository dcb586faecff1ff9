#include "node/worker/pipeline_instances.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace lambent::worker {
namespace {

using slice_scheduling::InstanceId;

void remove_folder(const std::string& folder) {
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
}

bool is_on(const PipelineInstance& instance, DeviceId slice) {
  const auto& slices = instance.placement().slices;
  return std::ranges::find(slices, slice) != slices.end();
}

}  // namespace

PipelineInstances::PipelineInstances(loop::EventLoop& loop, StageProcessSandboxes& sandboxes,
                                     const PipelineSetting& setting)
    : loop_(loop), sandboxes_(sandboxes), setting_(setting) {
  remove_folder(setting_.channel_folder);
}

PipelineInstances::~PipelineInstances() {
  instances_.clear();
  remove_folder(setting_.channel_folder);
}

std::unique_ptr<PipelineInstance> PipelineInstances::make(
    const FunctionSpec& spec, std::shared_ptr<const PipelinePackage> package,
    const pipeline::Placement& placement, const std::string& name,
    PipelineInstance::Events events) {
  PipelineInstance::Request request;
  request.package = std::move(package);
  request.spec = spec;
  request.placement = placement;
  for (const DeviceId device : placement.slices) {
    const Bytes memory = setting_.slice(device)->shape.memory;
    request.device_memory.push_back(memory - std::min(memory, setting_.context_memory));
  }
  request.folder = setting_.channel_folder + "/" + name;
  request.slot = setting_.largest_value;
  auto instance =
      std::make_unique<PipelineInstance>(loop_, sandboxes_, std::move(request), std::move(events));
  for (const SandboxId sandbox : instance->sandboxes()) stage_processes_[sandbox] = instance.get();
  return instance;
}

void PipelineInstances::forget(const PipelineInstance& instance) {
  for (const SandboxId sandbox : instance.sandboxes()) stage_processes_.erase(sandbox);
}

PipelineInstances::LiveInstance& PipelineInstances::add(InstanceId id, LiveInstance instance) {
  return instances_[id] = std::move(instance);
}

PipelineInstances::LiveInstance* PipelineInstances::find(InstanceId id) {
  const auto found = instances_.find(id);
  return found != instances_.end() ? &found->second : nullptr;
}

void PipelineInstances::remove(InstanceId id) {
  const auto found = instances_.find(id);
  std::shared_ptr<PipelineInstance> gone = std::move(found->second.instance);
  instances_.erase(found);
  forget(*gone);
  loop_.call_after(Duration(0), [gone = std::move(gone)] {});
}

bool PipelineInstances::any_on(DeviceId slice) const {
  return std::ranges::any_of(instances_,
                             [&](const auto& each) { return is_on(*each.second.instance, slice); });
}

std::vector<InstanceId> PipelineInstances::on(DeviceId slice) const {
  std::vector<InstanceId> found;
  for (const auto& [id, live] : instances_) {
    if (is_on(*live.instance, slice)) found.push_back(id);
  }
  return found;
}

void PipelineInstances::abandon(const std::vector<InstanceId>& instances, const Error& why) {
  for (const InstanceId id : instances) {
    LiveInstance* live = find(id);
    if (live != nullptr) live->instance->abandon(why, "Sandbox.Failure");
  }
}

PipelineInstance* PipelineInstances::instance_of(SandboxId sandbox) {
  const auto found = stage_processes_.find(sandbox);
  return found != stage_processes_.end() ? found->second : nullptr;
}

void PipelineInstances::on_ready(SandboxId sandbox, Duration, Duration) {
  if (PipelineInstance* instance = instance_of(sandbox)) instance->stage_process_ready(sandbox);
}

void PipelineInstances::on_answer(SandboxId sandbox, HandlerAnswer answer) {
  if (PipelineInstance* instance = instance_of(sandbox)) {
    instance->stage_process_answered(sandbox, std::move(answer));
  }
}

void PipelineInstances::on_end(SandboxEnd end) {
  if (PipelineInstance* instance = instance_of(end.sandbox)) {
    instance->stage_process_ended(std::move(end));
  }
}

void PipelineInstances::on_memory_moved(SandboxId sandbox, const MemoryMove& move) {
  if (PipelineInstance* instance = instance_of(sandbox)) instance->memory_moved(sandbox, move);
}

void PipelineInstances::on_memory_wanted(SandboxId sandbox, Bytes bytes) {
  sandboxes_.grant_memory(sandbox, bytes);
}

Duration PipelineInstances::count_busy(const JobEnd& end) {
  const Instant given = loop_.clock().now() - end.execution;
  Duration all{};
  for (const JobEnd::StageProcessTime& stage_process : end.stage_processes) {
    busy_[stage_process.slice] += stage_process.busy;
    all += stage_process.busy;
    const Instant done = given + stage_process.ended - stage_process.send;
    gpu_busy_[gpu_of(stage_process.slice)].add(done - stage_process.busy, done);
  }
  return all;
}

Duration PipelineInstances::busy(DeviceId slice) const {
  const auto found = busy_.find(slice);
  return found != busy_.end() ? found->second : Duration(0);
}

std::map<uint32_t, Duration> PipelineInstances::gpu_time() const {
  std::map<uint32_t, Duration> times;
  for (const Slice& slice : setting_.slices) times[gpu_of(slice.id)];
  for (const auto& [gpu, covered] : gpu_busy_) times[gpu] = covered.total();
  return times;
}

}  // namespace lambent::worker
