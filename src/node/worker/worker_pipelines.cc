// The part of Worker that gives pipelines their sandboxes and their requests, and takes the ends.
#include <algorithm>
#include <utility>

#include "gpu/stage_channel/channel_file.h"
#include "node/worker/worker.h"

namespace lambent::worker {
namespace {

// Stage processes of pipelines have ids of their own among sandboxes.
constexpr uint64_t kFirstStageProcess = uint64_t{1} << 41;

Result<void> make_channel(const std::string& path, uint32_t slots, Bytes slot) {
  stage_channel::ErrorText error;
  const auto status = stage_channel::create_channel(path.c_str(), slots, slot.count, 0666, error);
  if (status != stage_channel::Status::kDone) {
    return Error{ErrorCode::kInternal, "make a stage's channel: " + std::string(error.text)};
  }
  return {};
}

}  // namespace

PipelineSetting Worker::pipeline_setting() {
  PipelineSetting setting = options_.pipelines;
  setting.shared.utilisation = [this] {
    double least = 1;
    for (const scheduling::Device& device : dispatcher_->fleet().devices()) {
      if (device.healthy) least = std::min(least, device.utilisation);
    }
    return least;
  };
  setting.background = [this](auto work, auto completion) {
    return files_.run(std::move(work), std::move(completion));
  };
  return setting;
}

StageProcessSandboxes Worker::stage_process_sandboxes() {
  StageProcessSandboxes stage_processes;
  stage_processes.next_id = [this] {
    return SandboxId(kFirstStageProcess + ++stage_processes_started_);
  };
  stage_processes.start = [this](SandboxId id, const FunctionSpec& spec, DeviceId device,
                                 const StageProcessExtras& extras) {
    host_.start(id, spec, code_folder(spec), device, extras);
  };
  stage_processes.give = [this](SandboxId id, InvocationRequest& request, Duration timeout) {
    host_.give(id, request, timeout);
  };
  stage_processes.stop = [this](SandboxId id, Error error, std::string error_type) {
    host_.stop(id, std::move(error), std::move(error_type));
  };
  stage_processes.move_memory_out = [this](SandboxId id) {
    host_.move_memory_out(id, protocol::MemoryMoveDepth::kMemory);
  };
  stage_processes.move_memory_in = [this](SandboxId id) { host_.move_memory_in(id); };
  stage_processes.make_channel = make_channel;
  stage_processes.end_channel = [](const std::string& path) {
    // Where this fails the channel is gone, and with it who waited there.
    stage_channel::ErrorText ignored;
    (void)stage_channel::end_channel(path.c_str(), ignored);
  };
  return stage_processes;
}

PipelineHost::Events Worker::pipeline_events() {
  PipelineHost::Events events;
  events.on_begin = [this](InvocationId id) { note_begun(live_.at(id).request); };
  events.on_end = [this](InvocationResult result) { finish(std::move(result)); };
  events.on_profile = [this](FunctionId function, std::string profile) {
    const FunctionSpec* spec = functions_.find(function);
    if (spec == nullptr) return;
    catalog_.save_profile({spec->name.tenant, function, spec->revision, std::move(profile)},
                          [this, name = spec->name.name](Result<void> saved) {
                            if (saved.ok()) return;
                            log_.warning("profile_not_saved",
                                         {{"function", name}, {"error", to_string(saved.error())}});
                          });
  };
  return events;
}

void Worker::begin_pipeline(Live& live, const FunctionSpec& spec) {
  live.revision = spec.revision;
  const InvocationId id = live.request.id;
  if (pipelines_.isolation_of_next(spec.id) == pipeline::Isolation::kShared) {
    live.is_whole_pipeline = true;
    return submit_to_dispatch(live);
  }
  const auto begun = pipelines_.submit(live.request, spec);
  if (!begun.ok()) reject(id, begun.error());
}

Result<FunctionId> Worker::pipeline_called(const FunctionName& name) const {
  ASSIGN_OR_RETURN(const FunctionSpec* spec, functions_.get(name));
  if (spec->kind == FunctionKind::kPipeline) return spec->id;
  return Error{
      ErrorCode::kFailedPrecondition,
      "function '" + name.name + "' is a " + std::string(name_of(spec->kind)) + ", no pipeline"};
}

Result<std::string> Worker::describe_pipeline(const FunctionName& name) const {
  ASSIGN_OR_RETURN(const FunctionId function, pipeline_called(name));
  return pipelines_.describe(function);
}

void Worker::measure_pipeline(const FunctionName& name, std::string event, unsigned repeat,
                              Callback<std::string> done) {
  const auto function = pipeline_called(name);
  if (!function.ok()) return done(function.error());
  if (draining_) return done(Error{ErrorCode::kUnavailable, "the worker is stopping"});
  pipelines_.measure(*function, std::move(event), repeat, std::move(done));
}

}  // namespace lambent::worker
