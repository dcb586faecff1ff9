// Deployments: creates, changes and removes functions, and recovers them from the catalog: their
// code, their record, and what workflows, pipelines, executors and dispatch are told of them. Used
// by Worker on the loop thread.
#pragma once

#include <memory>
#include <string>

#include "core/domain/invocation_service.h"
#include "node/worker/code_store.h"
#include "node/worker/dispatch_driver.h"
#include "node/worker/executor_keeper.h"
#include "node/worker/function_quotas.h"
#include "node/worker/function_rules.h"
#include "node/worker/learnt_statistics.h"
#include "node/worker/log_store.h"
#include "node/worker/pipeline_host.h"
#include "node/worker/workflow_host.h"

namespace lambent::worker {

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
    LearntStatistics& statistics;
    LogStore& logs;
    FileThread& files;
    CodeStore& code;
    DispatchDriver& driver;
    ExecutorHost& executors;
    ExecutorKeeper& keeper;
    WorkflowHost& workflows;
    PipelineHost& pipelines;
  };
  // What functions and their packages are checked against.
  struct Rules {
    FunctionRules functions;
    PipelineSetting pipelines;
    std::string built_in_kernels;  // the folder of kernels that packages may name
  };

  // `code` outlives the file thread's work.
  Deployments(Dependencies dependencies, Rules rules)
      : uses_(dependencies), rules_(std::make_shared<const Rules>(std::move(rules))) {}

  // As InvocationService::create_function(), update_function() and remove_function().
  void create(FunctionChange change, Done done);
  void update(FunctionChange change, Done done);
  void remove(const FunctionName& name, Done done);
  // Blocks; before the loop runs.
  void recover(catalog::Snapshot snapshot);

  // What tenants may deploy.
  FunctionQuotas& quotas() { return quotas_; }

 private:
  // A function's code and its package, where that describes something.
  struct Unpacking {
    FunctionChange change;
    std::shared_ptr<const workflow::Workflow> graph;
    std::shared_ptr<const PipelinePackage> pipeline;
    PipelineHost::Planned planned;
  };

  void store(FunctionChange change, Done done);
  // Blocks; on the file thread, perhaps after the end of this object.
  static Result<void> unpack(const CodeStore& code, const Rules& rules, Unpacking& unpacking);
  void put(Unpacking unpacked, Done done);
  void put_within_quota(Unpacking unpacked, Done done);
  // What the deployment of `spec` adds to what its tenant has.
  FunctionQuotas::Addition addition_of(const FunctionSpec& spec) const;
  void recover_pipeline(FunctionSpec& spec,
                        const std::vector<catalog::PipelineProfileRecord>& profiles);
  // No longer than this worker allows, for one that was deployed when a longer one was allowed.
  void cap_timeout(FunctionSpec& spec) const;
  bool uses_slices(const PipelinePackage& package) const;
  void tell_dispatch(const FunctionSpec& spec);

  const Dependencies uses_;
  const std::shared_ptr<const Rules> rules_;
  FunctionQuotas quotas_;
};

}  // namespace lambent::worker
