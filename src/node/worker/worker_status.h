// WorkerStatus: what the worker shows of itself: functions and sandboxes for `lambent ls` and `ps`,
// why an invocation waits, devices, gauges. Changes nothing. Used by Worker on the loop thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "node/worker/device_health.h"
#include "node/worker/dispatch_driver.h"
#include "node/worker/follow_ups.h"
#include "node/worker/mount_waits.h"
#include "node/worker/scheduled_invocations.h"

namespace lambent::worker {

class WorkerStatus {
 public:
  // All outlive it; the constructor uses none.
  struct Dependencies {
    loop::EventLoop& loop;
    metrics::WorkerMetrics& metrics;
    const dispatch::Dispatcher& dispatcher;
    const FunctionRegistry& functions;
    const LiveInvocations& live;
    const Backends& backends;
    const ExecutorHost& executors;
    const WorkflowHost& workflows;
    const PipelineHost& pipelines;
    const DeviceCare& care;
    const DeviceHealth& health;
    const ScheduledInvocations& schedules;
    const FollowUps& follow_ups;
    const MountWaits& mounts;
  };

  explicit WorkerStatus(Dependencies dependencies) : uses_(dependencies) {}
  const Dependencies& uses() const { return uses_; }

  std::vector<FunctionStatus> functions(TenantId tenant, const std::string& after,
                                        size_t limit) const;
  // Of one tenant; nothing: of all.
  std::vector<SandboxStatus> sandboxes(Metering metering, std::optional<TenantId> tenant) const;
  // Of all tenants: invocations that run or wait. Cheap enough for each request.
  uint64_t invocations() const;
  struct Counts {
    uint64_t queued = 0;
    uint64_t running = 0;
    uint64_t completed = 0;
  };
  Counts counts(const FunctionSpec& spec) const;
  // What an invocation that has no outcome yet waits for, and who has the GPUs meanwhile, as JSON.
  // NOT_FOUND.
  Result<std::string> explain_json(TenantId tenant, InvocationId id) const;
  // All devices and their state, as JSON.
  std::string devices_json() const;
  // Of each GPU on which functions take turns, in the order of ClusterGpus::own(): whether it was
  // lost or is drained, so that it gets no work before it is back.
  std::vector<bool> gpus_lost() const;
  // The slices of a tenant's pipelines, as JSON.
  std::string slices_json(TenantId tenant) const;
  // Pipelines that could run here if all were free; whether one of them is.
  std::vector<FunctionName> served_pipelines() const;
  std::vector<FunctionName> pipelines_served_later() const;
  bool serves_pipeline(FunctionId function) const;
  // What runs of a workflow may call, as steps_of() of workflow_steps.h.
  std::vector<const FunctionSpec*> steps_of(const FunctionSpec& workflow) const;
  // Another number after each change of any function.
  uint64_t function_changes() const { return uses_.functions.changes(); }
  // Brings the gauges of the metrics up to date.
  void update_gauges() const;
  InstanceReport instances(FunctionId function) const;

 private:
  void set_flows() const;
  void set_devices() const;
  void set_executors() const;
  void set_slices() const;
  void set_objects() const;

  const Dependencies uses_;
};

}  // namespace lambent::worker
