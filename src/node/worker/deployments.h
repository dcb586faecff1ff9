// Deployments: creates, changes and removes functions, and recovers them from the catalog: their
// code, their record, and what workflows, pipelines, executors and dispatch are told of them. Used
// by Worker on the loop thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/domain/invocation_service.h"
#include "core/domain/secret.h"
#include "core/domain/version_service.h"
#include "node/environments/store.h"
#include "node/images/store.h"
#include "node/worker/aliases.h"
#include "node/worker/code_collector.h"
#include "node/worker/code_store.h"
#include "node/worker/cuda_packages.h"
#include "node/worker/deployment_package.h"
#include "node/worker/dispatch_driver.h"
#include "node/worker/executor_keeper.h"
#include "node/worker/function_quotas.h"
#include "node/worker/gpu_tenancy.h"
#include "node/worker/learnt_statistics.h"
#include "node/worker/log_store.h"
#include "node/worker/package_recovery.h"
#include "node/worker/pending_deployments.h"
#include "node/worker/pipeline_host.h"
#include "node/worker/sandbox_host.h"
#include "node/worker/scheduled_invocations.h"
#include "node/worker/shared_functions.h"
#include "node/worker/workflow_host.h"

namespace lambent::worker {

// What deployments ask those who have volumes and mounts, and files of the host.
struct MountUses {
  // As SandboxSetting has it; empty: functions have no mounts.
  std::function<Result<std::vector<std::string>>(const FunctionSpec&)> folders = {};
  // Of the disk, beside packages; empty: nothing.
  std::function<Bytes(TenantId)> used_beside = {};
  HostPaths host_path = {};
};

class Deployments {
 public:
  using Done = InvocationService::Callback<FunctionSpec>;

  // All outlive it; the constructor uses none.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    catalog::Catalog& catalog;
    metrics::WorkerMetrics& metrics;
    FunctionRegistry& functions;
    Aliases& aliases;
    Revisions& revisions;
    LearntStatistics& statistics;
    LogStore& logs;
    loop::WorkThread& files;
    CodeStore& code;
    DispatchDriver& driver;
    SandboxHost& sandboxes;
    ExecutorHost& executors;
    ExecutorKeeper& keeper;
    WorkflowHost& workflows;
    PipelineHost& pipelines;
    ScheduledInvocations& schedules;
    CudaPackages& cuda_packages;
    const SecretService* secrets = nullptr;                  // null: functions refer to none
    environments::EnvironmentStore* environments = nullptr;  // null: no Python packages
    images::ImageStore* images = nullptr;                    // null: no images
    SharedFunctions* shared = nullptr;                       // null: functions are this node's own
  };
  // `code` outlives the file thread's work.
  Deployments(Dependencies dependencies, DeploymentRules rules, MountUses mounts)
      : uses_(dependencies),
        mounts_(std::move(mounts)),
        rules_(std::make_shared<const DeploymentRules>(std::move(rules))),
        gpus_(rules_->functions, rules_->pipelines.slices),
        pending_([environments = uses_.environments, images = uses_.images](const auto& awaited) {
          std::string said = images == nullptr ? "" : images->progress(awaited);
          return said.empty() && environments != nullptr ? environments->progress(awaited) : said;
        }),
        tenancy_(rules_->functions.gpu_serves_one_tenant),
        collector_(
            {uses_.functions, uses_.revisions, uses_.code, uses_.environments, uses_.images}),
        recovery_({uses_.loop, uses_.log, uses_.functions, uses_.revisions, uses_.code,
                   uses_.cuda_packages, uses_.secrets, uses_.environments, uses_.images,
                   mounts_.host_path}) {}

  // As InvocationService::create_function(), update_function() and remove_function(). A version of
  // another node comes with its record's name, and with its code unless that is here. A kept graph
  // (core/domain/kernel_graph_service.h) comes with its id and its digest, and no catalog has it.
  void create(FunctionChange change, Done done);
  void update(FunctionChange change, Done done);
  // Of a function with its versions and aliases; of a version's record, only that.
  void remove(const FunctionName& name, Done done);
  // As VersionService::publish().
  void publish(Publication publication, Done done);
  // New sandboxes for the function as it is, after a change that is under way.
  void renew(const FunctionName& name, Done done);
  // A change that FunctionVersions made is over: for those that waited for it.
  void renew_waiting(const FunctionName& name);
  // The functions that refer to a secret, in order of name.
  std::vector<std::string> users_of_secret(TenantId tenant, const std::string& secret) const;
  // The functions that mount a volume, in order of name.
  std::vector<std::string> users_of_volume(TenantId tenant, const std::string& volume) const;
  // They get new sandboxes, since those that they have were started with another value; `renewed`
  // is called when invocations no longer go to the old ones.
  void secret_changed(TenantId tenant, const std::string& secret, std::function<void()> renewed);
  // Blocks; before the loop runs. FAILED_PRECONDITION: functions of several tenants use a GPU that
  // serves one only.
  // Of none are instances started before start_instances().
  Result<void> recover(catalog::Snapshot snapshot);
  // As many of each function as it wants ready, beside those that are there.
  void start_instances();

  // Changes that were answered before they were done.
  const PendingDeployments& pending() const { return pending_; }

  // What a tenant has of what quotas count.
  FunctionQuotas::Use used(TenantId tenant) const;

  ClusterGpus& gpus() { return gpus_; }

  // What tenants may deploy.
  FunctionQuotas& quotas() { return quotas_; }

  // What dispatch is told of a function.
  dispatch::FunctionProfile profile(const FunctionSpec& spec) const;

 private:
  // What is wrong with the function itself, and the secrets that it refers to and are not there.
  Result<void> check(const FunctionSpec& spec) const;
  void store(FunctionChange change, Done done);
  void store_change(FunctionChange change, Done answer, Done finish);
  // Makes the environment of its Python packages, then goes on. Once the change's answer_within is
  // at its end `answer` is called, and `done` later all the same.
  void install(DeploymentPackage unpacked, Done answer, Done done);
  // The same of the image of a function that has one: makes it the spec's. One that is there takes
  // no time.
  void pull(DeploymentPackage unpacked, Done answer, Done done);
  // Starts the time after which a change that waits for something is answered.
  loop::TimerId begin_waiting(const DeploymentPackage& unpacked, const std::string& awaited,
                              Done answer);
  void put(DeploymentPackage unpacked, Done done);
  void keep(DeploymentPackage unpacked, FunctionSpec spec, Done done);
  void remove_here(const FunctionSpec& spec, Done done);
  // What all others are told of a function that is in the catalog.
  void adopt(const FunctionSpec& spec);
  // Its own part of a removal.
  void forget(const FunctionSpec& spec);
  void publish_now(FunctionSpec spec, std::optional<uint64_t> number, Done done);
  // The change was answered and goes on: what becomes of it is kept.
  void answer_early(const FunctionSpec& spec, const Done& answer);
  void end_pending(const FunctionName& name, const Result<FunctionSpec>& result);
  void keep_first_revision(const FunctionSpec& spec);
  void recover_deployments(std::vector<catalog::DeploymentRecord> records);
  void put_within_quota(DeploymentPackage unpacked, Done done);
  void recover_pipeline(FunctionSpec& spec,
                        const std::vector<catalog::PipelineProfileRecord>& profiles);
  // If the function uses the GPU, it is this tenant's from now on. FAILED_PRECONDITION: it is
  // another's. UNAVAILABLE: processes of another are on it still.
  Result<void> claim_gpu(const FunctionSpec& spec);
  void release_gpu_unless_used(const FunctionName& name);
  // Once sandboxes of before serve its calls no longer.
  void answer_after_hand_over(FunctionSpec spec, Done done);

  const Dependencies uses_;
  const MountUses mounts_;
  const std::shared_ptr<const DeploymentRules> rules_;
  ClusterGpus gpus_;
  PendingDeployments pending_;
  FunctionQuotas quotas_;
  GpuTenancy tenancy_;
  CodeCollector collector_;
  PackageRecovery recovery_;
  std::map<FunctionName, std::vector<Done>> renewals_;  // that wait for the change under way
};

// RESOURCE_EXHAUSTED, naming the quota, if the tenant may not have so much more on the disk.
Result<void> check_disk(Deployments& deployments, TenantId tenant, Bytes more);

}  // namespace lambent::worker
