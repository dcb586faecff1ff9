// StageProcessSandboxes: the sandboxes that pipelines start as stage processes, and the channels
// between them. Implemented over SandboxHost, and by tests. Used by PipelineHost on the loop
// thread.
#pragma once

#include <string>

#include "node/worker/backend.h"
#include "node/worker/backend_reports.h"
#include "node/worker/code_store.h"
#include "node/worker/sandbox_host.h"

namespace lambent::worker {

class StageProcessSandboxes {
 public:
  virtual ~StageProcessSandboxes() = default;

  // An id that no other sandbox of this worker has.
  virtual SandboxId next_id() = 0;
  // These are as Backend has them.
  virtual void start(SandboxId sandbox, const FunctionSpec& spec, DeviceId device,
                     const StageProcessExtras& extras) = 0;
  virtual void deliver(SandboxId sandbox, InvocationRequest& request, Duration timeout) = 0;
  virtual void stop(SandboxId sandbox, Error error, std::string error_type) = 0;
  virtual void move_memory_out(SandboxId sandbox) = 0;
  virtual void move_memory_in(SandboxId sandbox) = 0;
  virtual void grant_memory(SandboxId sandbox, Bytes bytes) = 0;

  // A channel at `path` with room for so many values of at most `slot` bytes.
  virtual Result<void> make_channel(const std::string& path, uint32_t slots, Bytes slot) = 0;
  // Wakes the processes that wait at the channel: nothing comes any more.
  virtual void end_channel(const std::string& path) = 0;
};

// The real ones.
class BackendStageProcesses final : public StageProcessSandboxes {
 public:
  // All outlive it; the reports go to the pipelines. The constructor uses none.
  BackendStageProcesses(SandboxHost& backend, BackendReports& reports, const CodeStore& code)
      : backend_(backend), reports_(reports), code_(code) {}

  SandboxId next_id() override;
  void start(SandboxId sandbox, const FunctionSpec& spec, DeviceId device,
             const StageProcessExtras& extras) override;
  void deliver(SandboxId sandbox, InvocationRequest& request, Duration timeout) override;
  void stop(SandboxId sandbox, Error error, std::string error_type) override;
  void move_memory_out(SandboxId sandbox) override;
  void move_memory_in(SandboxId sandbox) override;
  void grant_memory(SandboxId sandbox, Bytes bytes) override;
  Result<void> make_channel(const std::string& path, uint32_t slots, Bytes slot) override;
  void end_channel(const std::string& path) override;

 private:
  SandboxHost& backend_;
  BackendReports& reports_;
  const CodeStore& code_;
  uint64_t started_ = 0;
};

}  // namespace lambent::worker
