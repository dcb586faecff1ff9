// PipelineFunctions: the pipeline functions of this worker: how each is planned, at deployment and
// again when production shows that its components take another time or more memory than was
// thought, and what its requests came to. Owned by PipelineHost, on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "core/base/log.h"
#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "decide/pipeline/planner.h"
#include "decide/pipeline/profile_estimate.h"
#include "decide/scheduling/flow.h"
#include "decide/slice_scheduling/slice_dispatcher.h"
#include "node/worker/pipeline_instance.h"
#include "node/worker/pipeline_isolation.h"
#include "node/worker/pipeline_package.h"
#include "node/worker/pipeline_setting.h"

namespace lambent::worker {

class PipelineFunctions {
 public:
  using Planned = std::shared_ptr<const pipeline::PipelineFunction>;

  struct Counts {
    uint64_t completed = 0;  // since the worker began
    uint64_t in_time = 0;    // of those with an SLO
    uint64_t late = 0;
    Duration mig_time{};  // in which slices were at work for it, added up
  };
  struct Function {
    FunctionSpec spec;
    std::shared_ptr<const PipelinePackage> package;
    pipeline::ProfileEstimate estimate;
    Planned planned;
    bool planning = false;             // again, in the background
    bool is_stale = false;             // and meanwhile more was learnt
    bool is_served = false;            // could_serve() with the slices that are not lost
    bool is_served_with_lost = false;  // the same with all
    InstanceEnd last_end;              // of an instance; its words are for clients
    Counts counts;
    scheduling::RunningMean took;           // by jobs, per request
    ArrivalRate arrivals;                   // where there is a choice
    std::optional<IsolationStatus> status;  // none: nothing was chosen yet
  };
  struct Events {
    // It is planned, or planned again, as `planned` says; `is_new`: it was deployed.
    std::function<void(const Planned& planned, bool is_new)> on_planned;
    // Its profile was found to be another; for the catalog. May be empty.
    std::function<void(FunctionId, std::string profile_json)> on_profile;
  };

  // What no node could run, whatever it has. INVALID_ARGUMENT.
  static Result<void> check_package(const FunctionSpec& spec, const PipelinePackage& package);
  // As PipelineHost::check().
  static Result<Planned> check(const PipelineSetting& setting, const FunctionSpec& spec,
                               const PipelinePackage& package);
  // Whether it would run there, as it is planned, if all were free.
  static bool could_serve(const PipelineSetting& setting, const FunctionSpec& spec,
                          const PipelinePackage& package,
                          const pipeline::PipelineFunction& planned);
  // One that only other nodes can serve, as put() plans it after a restart: by the shapes of its
  // profile and of the setting. INVALID_ARGUMENT: the planner takes no such pipeline.
  static Result<Planned> kept_for_others(const PipelineSetting& setting, const FunctionSpec& spec,
                                         const PipelinePackage& package);
  // One that cannot run there: its requests are refused.
  static Planned unplanned(FunctionId id, const PipelinePackage& package);

  // The log and the setting outlive it.
  PipelineFunctions(LogSink& log, const PipelineSetting& setting, Events events)
      : log_(log), setting_(setting), events_(std::move(events)) {}

  // As PipelineHost::put(). The counts of an earlier revision stay.
  void put(const FunctionSpec& spec, std::shared_ptr<const PipelinePackage> package,
           Planned planned, const std::string& learnt);
  // False: there was none.
  bool remove(FunctionId function) { return functions_.erase(function) > 0; }
  // Null: there is none.
  Function* find(FunctionId function);
  const Function* find(FunctionId function) const;
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [id, function] : functions_) visit(function);
  }
  // Its name, if it is the tenant's; otherwise empty.
  std::string name_for(TenantId tenant, FunctionId function) const;

  // Counts the end of a request; whether it was in time: none: it has no SLO.
  static std::optional<bool> count(Function& function, Outcome outcome, Duration took);
  // Learns from a job of this revision's package what its components take, and plans the function
  // again where that is news.
  void learn(Function& function, const PipelinePackage& package, const JobEnd& end);
  // Plans it again, in the background; on_planned follows unless it fails.
  void plan_again(Function& function);
  // A slice is lost, or back: which functions can be served is another question then, and every
  // choice of isolation is made again.
  void note_slice(DeviceId slice, bool lost);

 private:
  static Result<Planned> plan(const PipelineSetting& setting, const FunctionSpec& spec,
                              const PipelinePackage& package,
                              const pipeline::MeasuredProfile& measured);
  // Who can be served, with the slices that there are now.
  void judge(Function& function) const;
  void planned_again(FunctionId id, const PipelinePackage* package, Result<Planned> made);

  LogSink& log_;
  const PipelineSetting& setting_;
  const Events events_;
  std::unordered_map<FunctionId, Function> functions_;
  std::set<DeviceId> lost_;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace lambent::worker
