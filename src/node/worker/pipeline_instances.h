// PipelineInstances: the instances of pipelines that are on this worker's slices, whether dispatch
// started them or a measurement; passes the reports of their stage processes on to them, and counts
// the time for which slices were at work. Owned by PipelineHost, on the loop thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/loop/event_loop.h"
#include "decide/slice_scheduling/slice_dispatcher.h"
#include "node/worker/covered_time.h"
#include "node/worker/pipeline_instance.h"
#include "node/worker/pipeline_setting.h"

namespace lambent::worker {

class PipelineInstances final : public BackendObserver {
 public:
  struct LiveInstance {
    FunctionId function;
    std::shared_ptr<const PipelinePackage> package;
    std::unique_ptr<PipelineInstance> instance;
    Instant asked{};  // when it was last started or loaded
    StartClass how = StartClass::kCold;
    std::optional<Instant> ready;
  };

  // All outlive it.
  PipelineInstances(loop::EventLoop& loop, StageProcessSandboxes& sandboxes,
                    const PipelineSetting& setting);
  ~PipelineInstances();
  PipelineInstances(const PipelineInstances&) = delete;
  PipelineInstances& operator=(const PipelineInstances&) = delete;

  // An instance on these slices, in a folder of this name; its stage processes are known from now
  // on, until forget().
  std::unique_ptr<PipelineInstance> make(const FunctionSpec& spec,
                                         std::shared_ptr<const PipelinePackage> package,
                                         const pipeline::Placement& placement,
                                         const std::string& name, PipelineInstance::Events events);
  void forget(const PipelineInstance& instance);

  // Those that dispatch has started.
  LiveInstance& add(slice_scheduling::InstanceId id, LiveInstance instance);
  // Null: its end is on the way.
  LiveInstance* find(slice_scheduling::InstanceId id);
  // It has ended, and calls from within: it is destroyed in the next turn of the loop.
  void remove(slice_scheduling::InstanceId id);
  bool any_on(DeviceId slice) const;
  // Ends those on this slice, whose jobs are not to blame.
  void abandon(const std::vector<slice_scheduling::InstanceId>& instances, const Error& why);
  std::vector<slice_scheduling::InstanceId> on(DeviceId slice) const;

  void on_ready(SandboxId sandbox, Duration sandbox_time, Duration init_time) override;
  void on_answer(SandboxId sandbox, HandlerAnswer answer) override;
  void on_end(SandboxEnd end) override;
  void on_memory_moved(SandboxId sandbox, const MemoryMove& move) override;
  // It is granted: what a stage process has offloaded counts with the rest of its memory.
  void on_memory_wanted(SandboxId sandbox, Bytes bytes) override;

  // Time in which components ran on the slices of a job; returns that of all its stage processes.
  Duration count_busy(const JobEnd& end);
  // Since the worker began: of one slice, and of each GPU with slices while any of them was busy.
  Duration busy(DeviceId slice) const;
  std::map<uint32_t, Duration> gpu_time() const;

 private:
  PipelineInstance* instance_of(SandboxId sandbox);

  loop::EventLoop& loop_;
  StageProcessSandboxes& sandboxes_;
  const PipelineSetting& setting_;
  std::map<slice_scheduling::InstanceId, LiveInstance> instances_;
  std::unordered_map<SandboxId, PipelineInstance*> stage_processes_;
  std::map<DeviceId, Duration> busy_;
  std::map<uint32_t, CoveredTime> gpu_busy_;  // by GPU
};

}  // namespace lambent::worker
