#include "node/worker/stage_process_sandboxes.h"

#include <utility>

#include "gpu/stage_channel/channel_file.h"

namespace lambent::worker {
namespace {

// Stage processes of pipelines have ids of their own among sandboxes.
constexpr uint64_t kFirstStageProcess = uint64_t{1} << 41;

}  // namespace

SandboxId BackendStageProcesses::next_id() { return SandboxId(kFirstStageProcess + ++started_); }

void BackendStageProcesses::start(SandboxId sandbox, const FunctionSpec& spec, DeviceId device,
                                  const StageProcessExtras& extras) {
  backend_.start({sandbox, spec, code_.folder(spec), device, extras}, reports_);
}

void BackendStageProcesses::deliver(SandboxId sandbox, InvocationRequest& request,
                                    Duration timeout) {
  backend_.deliver(sandbox, request, timeout);
}

void BackendStageProcesses::stop(SandboxId sandbox, Error error, std::string error_type) {
  backend_.stop(sandbox, std::move(error), std::move(error_type));
}

void BackendStageProcesses::move_memory_out(SandboxId sandbox) {
  backend_.move_memory_out(sandbox, protocol::MemoryMoveDepth::kMemory);
}

void BackendStageProcesses::move_memory_in(SandboxId sandbox) { backend_.move_memory_in(sandbox); }

void BackendStageProcesses::grant_memory(SandboxId sandbox, Bytes bytes) {
  backend_.grant_memory(sandbox, bytes);
}

Result<void> BackendStageProcesses::make_channel(const std::string& path, uint32_t slots,
                                                 Bytes slot) {
  stage_channel::ErrorText error;
  const auto status = stage_channel::create_channel(path.c_str(), slots, slot.count, 0666, error);
  if (status != stage_channel::Status::kDone) {
    return Error{ErrorCode::kInternal, "make a stage's channel: " + std::string(error.text)};
  }
  return {};
}

void BackendStageProcesses::end_channel(const std::string& path) {
  // Where this fails the channel is gone, and with it the processes that waited there.
  stage_channel::ErrorText ignored;
  (void)stage_channel::end_channel(path.c_str(), ignored);
}

}  // namespace lambent::worker
