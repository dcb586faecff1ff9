// Worker: the daemon's centre: implements InvocationService by its parts, which it makes and owns.
// The parts, in the order of an invocation: Intake, DispatchDriver over Backends, Completions;
// beside them Deployments, DeviceHealth and WorkerStatus. Everything happens on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fault_points.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/domain/access_service.h"
#include "core/domain/function_limits.h"
#include "core/domain/invocation_service.h"
#include "core/loop/event_loop.h"
#include "core/metrics/worker_metrics.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/journal/recorder.h"
#include "node/catalog/catalog.h"
#include "node/sandbox/launcher.h"
#include "node/worker/backend_reports.h"
#include "node/worker/call_batches.h"
#include "node/worker/cancellation.h"
#include "node/worker/deployments.h"
#include "node/worker/device_health.h"
#include "node/worker/function_versions.h"
#include "node/worker/host_memory_watch.h"
#include "node/worker/http_relays.h"
#include "node/worker/intake.h"
#include "node/worker/log_files.h"
#include "node/worker/mount_waits.h"
#include "node/worker/sandbox_host.h"
#include "node/worker/tenant_hours.h"
#include "node/worker/worker_activity.h"
#include "node/worker/worker_status.h"

namespace lambent::worker {

struct WorkerOptions {
  std::string state_folder;  // code lies in state_folder/code/<digest>
  std::string run_folder;    // ledgers; emptied at start
  SandboxSetting sandboxes;
  ExecutorSetting executors;
  WorkflowHost::Limits workflows = {};
  PipelineSetting pipelines;
  LogFilesOptions logs = {};                       // without a folder they end with the worker
  std::vector<protocol::DeviceInventory> devices;  // all, those of pipelines too
  Bytes device_memory;  // of the largest device; functions that ask for more are refused
  // Why functions that take several devices are refused; empty: they are not.
  std::string no_gangs = {};
  // What a CUDA context takes of the device beside what its function allocates.
  Bytes context_memory;
  // What sandboxes without a GPU may hold of the host's together; beyond it those at rest leave.
  // Zero: whatever they hold.
  Bytes sandbox_memory = {};
  // The GPUs must not be shared between tenants, because they are emulated.
  bool gpu_serves_one_tenant = false;
  // Handlers' calls on objects (SandboxHost::Dependencies); may be empty.
  std::function<void(TenantId, http::Request, std::string_view path, http::Responder)> on_object;
  std::function<Bytes(TenantId)> used_by_volumes = {};  // of the disk; empty: nothing
  // Where mounts lie, as MountUses has it; empty: as sandboxes that start find them.
  std::function<Result<std::vector<std::string>>(const FunctionSpec&)> deployed_mounts = {};
  MountFiles mount_files = {};
  // As MountUses has it.
  std::function<Result<std::string>(TenantId, const std::string& path)> host_path = {};
  // A function that takes turns on a GPU may have no longer timeout: nothing takes a run off a GPU,
  // so that is how long it can keep the others waiting.
  Duration longest_gpu_run = limits::kMostTimeout;
  Duration utilisation_average{};  // over which dispatch is told of the devices' utilisation
  // What follows asynchronous invocations whose functions say nothing of it, and how long their
  // results can be read.
  FollowUps::Setting follow_ups = {};
  // Invocations whose payloads would make all live ones hold more than this are refused, and of a
  // function whose live ones hold more than they leave free.
  Bytes most_payloads = Bytes::mib(1024);
  // As Completions has it.
  std::function<void(const InvocationRequest&, const InvocationResult&)> observe = {};
  // Told of what functions print, as it comes; may be empty.
  std::function<void(const FunctionName&, std::string_view text)> on_output = {};
  // The zips of functions' code stay beside it, for other nodes of a cluster.
  bool keeps_packages = false;
};

class Worker final : public InvocationService {
 public:
  // What the worker uses; all outlive it.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    Random& random;
    sandbox::Launcher& launcher;
    catalog::Catalog& catalog;
    metrics::WorkerMetrics& metrics;
    journal::Recorder* journal = nullptr;     // records every event, if there is one
    objects::ObjectStore* objects = nullptr;  // of kernel functions' inputs and outputs
    DeviceLinks* links = nullptr;             // null: device memory moves without turns
    const SecretService* secrets = nullptr;   // null: functions refer to none
    environments::EnvironmentStore* environments = nullptr;  // null: no Python packages
    images::ImageStore* images = nullptr;                    // null: no images
    SharedFunctions* shared = nullptr;                       // null: functions are this node's own
    SandboxHandOver* hand_over = nullptr;                    // null: no sandbox outlives the worker
    FaultPoints* faults = nullptr;                           // null: there are none
  };

  Worker(Dependencies dependencies, WorkerOptions options,
         std::unique_ptr<dispatch::Dispatcher> dispatcher,
         std::unique_ptr<slice_scheduling::SliceDispatcher> slices);
  ~Worker() override;

  // Reads the catalog: functions, statistics, and the asynchronous invocations that an earlier
  // worker left. Blocks; before the loop runs. FAILED_PRECONDITION: functions of several tenants
  // use a GPU that serves one only.
  Result<void> recover();
  // As Intake::resume().
  bool resume(catalog::AsyncInvocation pending) { return intake_.resume(std::move(pending)); }

  // Requests to HTTP functions.
  http::RelayService& relays() { return relays_; }
  FunctionVersions& versions() { return versions_; }

  // Called for every tenant before recover(), and whenever one is added, changed or removed.
  // With `share`, later: this node has that part of the tenant's quotas, other nodes the rest.
  void set_tenant(const Tenant& tenant, const TenantQuotas* share = nullptr);
  void remove_tenant(TenantId tenant);
  // All functions are looked at once, and not once for each tenant.
  std::map<TenantId, TenantUsage> usages_of(const std::vector<TenantId>& tenants) const;
  Deployments& deployments() { return deployments_; }

  // What lambent-device reports goes there.
  DeviceHealth& devices() { return health_; }
  // Takes no more work; `drained` is called when nothing runs any more.
  void drain(std::function<void()> drained);
  bool draining() const { return drain_.draining(); }

  ActivityService& activity() { return activity_; }
  ScheduledInvocations& schedules() { return schedules_; }
  // So runs of workflows call, from now on, what this node of a cluster cannot run.
  void call_elsewhere(CallsElsewhere calls) { elsewhere_ = std::move(calls); }
  const WorkerStatus& status() const { return status_; }

  // A pipeline function's definition, profile and instances, as JSON. NOT_FOUND,
  // FAILED_PRECONDITION: it is of another kind.
  Result<std::string> describe_pipeline(const FunctionName& name) const;
  // As PipelineHost::measure.
  void measure_pipeline(const FunctionName& name, std::string event, unsigned repeat,
                        Callback<std::string> done);

  // What a run of a workflow, or a pipeline for a request, did and where its time went, as JSON
  // (workflow_trace.h, pipeline_trace.h). NOT_FOUND.
  Result<std::string> trace(TenantId tenant, InvocationId invocation) const;

  // As Cancellation has it.
  Result<CancelledInvocation> cancel(TenantId tenant, InvocationId id) {
    return cancellation_.cancel(tenant, id);
  }

  void submit(InvocationRequest request, Callback<InvocationResult> done) override;
  void forget(InvocationId id) override;
  void async_result(TenantId tenant, InvocationId id,
                    Callback<std::optional<InvocationResult>> done) override;
  void create_function(FunctionChange change, Callback<FunctionSpec> done) override;
  void update_function(FunctionChange change, Callback<FunctionSpec> done) override;
  void remove_function(FunctionName name, Callback<FunctionSpec> done) override;
  std::optional<DeploymentStatus> deployment(const FunctionName& name) const override;
  Result<FunctionSpec> find_function(const FunctionName& name) const override;
  std::vector<FunctionSpec> list_functions(TenantId tenant, const std::string& after,
                                           size_t limit) const override;
  std::vector<FunctionStatus> function_status(TenantId tenant, const std::string& after,
                                              size_t limit) const override;
  FunctionTotals function_totals(TenantId tenant) const override;
  std::vector<SandboxStatus> sandbox_status(TenantId tenant, Metering metering) const override;
  Result<void> unload(const FunctionName& name) override;
  Result<LogChunk> read_log(const FunctionName& name, uint64_t offset, size_t most) const override;

 private:
  WorkflowHost::Events workflow_events();
  PipelineSetting pipeline_setting();
  PipelineHost::Events pipeline_events();
  void save_profile(FunctionId function, std::string profile);
  void keep_logs();
  std::unique_ptr<InvocationObjects> make_objects(objects::ObjectStore* store);
  DeploymentRules deployment_rules();

  // The parts know each other by reference, also those that are made after them: no constructor
  // calls another part that is not there yet.
  const Dependencies uses_;
  const WorkerOptions options_;
  std::unique_ptr<dispatch::Dispatcher> dispatcher_;
  FunctionRegistry functions_;
  Aliases aliases_;
  Revisions revisions_;
  LiveInvocations live_;
  RecentInvocations recent_;
  IdempotencyTable idempotency_;
  LogStore logs_;
  std::unique_ptr<LogFiles> log_files_;  // null: logs end with the worker
  CodeStore code_;
  loop::WorkThread files_;
  loop::WorkThread copies_;  // of payloads; so that no disk keeps them waiting
  Drain drain_;
  DispatchDriver driver_;
  BackendReports dispatch_reports_;
  ExecutorHost executors_;
  SandboxHost sandboxes_;
  HostMemoryWatch host_memory_;
  Unloads unloads_;
  Backends backends_;
  CallsElsewhere elsewhere_;
  CallBatches batches_;
  WorkflowHost workflows_;
  BackendStageProcesses stage_processes_;
  PipelineHost pipelines_;
  BackendReports pipeline_reports_;
  std::unique_ptr<InvocationObjects> objects_;  // null: there are no objects
  MountWaits mounts_;
  Completions completions_;
  Intake intake_;
  Cancellation cancellation_;
  FollowUps follow_ups_;
  LearntStatistics statistics_;
  TenantHours hours_;
  ScheduledInvocations schedules_;
  DeviceCare care_;
  ExecutorKeeper keeper_;
  DeviceHealth health_;
  CudaPackages cuda_packages_;
  Deployments deployments_;
  FunctionVersions versions_;
  WorkerStatus status_;
  WorkerActivity activity_;
  KernelDescriptions kernels_;
  HttpRelays relays_;
};

}  // namespace lambent::worker
