// PipelineHost: pipeline functions on this worker's slices: feeds SliceDispatcher with events and
// performs its actions on instances, whose stage processes are sandboxes. Used on the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/log.h"
#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/domain/slice.h"
#include "core/loop/event_loop.h"
#include "decide/pipeline/planner.h"
#include "decide/pipeline/profile_estimate.h"
#include "decide/scheduling/flow.h"
#include "decide/slice_scheduling/slice_dispatcher.h"
#include "decide/slice_scheduling/slice_wait.h"
#include "node/worker/covered_time.h"
#include "node/worker/pipeline_instance.h"
#include "node/worker/pipeline_isolation.h"
#include "node/worker/pipeline_package.h"
#include "node/worker/pipeline_trace.h"

namespace lambent::worker {

struct PipelineSetting {
  std::vector<Slice> slices;
  // What a process has of a slice beside what its function allocates.
  Bytes context_memory;
  std::string channel_folder;  // in memory, if it can be; emptied at start
  pipeline::PlannerOptions planner;
  SharedDevices shared;
  // The largest value of a job that goes from one stage to the next.
  Bytes largest_value = Bytes::gib(1);
  // Runs work elsewhere, and then the completion on the loop thread; false: not now. Planning a
  // large function takes long. Empty: it is done at once.
  std::function<bool(std::function<void()> work, std::function<void()> completion)> background;
};

// A slice, and who has it.
struct SliceStatus {
  Slice slice;
  bool lost = false;
  struct Holder {
    FunctionId function;
    uint64_t instance = 0;
    size_t stage = 0;
    size_t stages = 1;
    size_t replica = 0;           // of its stage process
    size_t replicas = 1;          // that its stage process has
    std::string allocation_mode;  // "exclusive", "time_sharing"
    std::string load_state;       // "starting", "loaded", "unloaded", ...
    double utilisation = 0;
  };
  std::vector<Holder> holders;
  Duration busy{};  // since the worker started: time in which components ran on it
};

class PipelineMeasurement;

class PipelineHost final : public BackendObserver {
 public:
  struct Events {
    // How a request ended. Its wait_reason is a word of slice_wait.h, and its device that of its
    // first stage.
    std::function<void(InvocationResult)> on_end;
    // It was given to an instance for the first time.
    std::function<void(InvocationId)> on_begin;
    // Its profile was found to be another; for the catalog. May be empty.
    std::function<void(FunctionId, std::string profile_json)> on_profile;
  };

  // All outlive it.
  PipelineHost(loop::EventLoop& loop, LogSink& log, StageProcessSandboxes& sandboxes,
               PipelineSetting setting,
               std::unique_ptr<slice_scheduling::SliceDispatcher> dispatcher, Events events);
  ~PipelineHost();
  PipelineHost(const PipelineHost&) = delete;
  PipelineHost& operator=(const PipelineHost&) = delete;

  using Planned = std::shared_ptr<const pipeline::PipelineFunction>;
  // A function with this package as it would be planned here; off the loop thread, if need be.
  // FAILED_PRECONDITION if there are no slices, RESOURCE_EXHAUSTED saying what would have to be
  // there if none is large enough.
  static Result<Planned> check(const PipelineSetting& setting, const FunctionSpec& spec,
                               const PipelinePackage& package);
  // A function, from now on. `planned`: as check() made it; none: it is planned here. `learnt`:
  // profile.json, as on_profile gave it for this revision.
  void put(const FunctionSpec& spec, std::shared_ptr<const PipelinePackage> package,
           Planned planned, const std::string& learnt);
  void remove(FunctionId function);

  // Where its next request is to go: shared: as an ordinary invocation of whole(). The choice
  // stands for half a minute.
  pipeline::Isolation isolation_of_next(FunctionId function);
  // As a handler with all components (slices alone: for what still waits); none without gpu.memory.
  std::optional<FunctionSpec> whole(FunctionId function) const;
  // An invocation of whole() has ended; whether in time: none: it has no SLO.
  std::optional<bool> ended_whole(FunctionId function, Outcome outcome, Duration took);

  // Takes the payload out of `request`; on_end tells how it went. INVALID_ARGUMENT: its payload is
  // no event.
  Result<void> submit(InvocationRequest& request, const FunctionSpec& spec);
  bool has(InvocationId request) const { return requests_.contains(request); }
  // Where its time went, of one that is here or among the last that ended, as JSON
  // (pipeline_trace.h). Functions of other tenants have no names there. NOT_FOUND.
  Result<std::string> trace(TenantId tenant, InvocationId request) const;
  // While it is here: whether it waits or runs, and why it waits.
  std::optional<RequestRecord> explain(InvocationId request) const;
  // Nobody waits for it any more.
  void cancel(InvocationId request);
  void drain();
  size_t live() const { return requests_.size(); }

  // A device is gone, or is well again.
  void device_reading(DeviceId device, bool lost);

  // Of the sandboxes of its stage processes.
  void on_ready(SandboxId sandbox, Duration sandbox_time, Duration init_time) override;
  void on_answer(SandboxId sandbox, HandlerAnswer answer) override;
  void on_end(SandboxEnd end) override;
  void on_memory_moved(SandboxId sandbox, const MemoryMove& move) override;
  // It is granted: what a stage process has offloaded counts with the rest of its memory.
  void on_memory_wanted(SandboxId sandbox, Bytes bytes) override;

  // Runs the function with this event on one slice of each shape that nobody has just now, one
  // after the other, `repeat` times each after a first one, and makes the medians its profile.
  // `done` gets {"profile": ..., "measured": [shapes], "skipped": [{"shape", "why"}]}, or
  // INVALID_ARGUMENT (the event), NOT_FOUND, RESOURCE_EXHAUSTED (one is measured already),
  // FAILED_PRECONDITION (it could be measured nowhere, and why).
  void measure(FunctionId function, std::string event, unsigned repeat,
               std::function<void(Result<std::string>)> done);

  std::vector<SliceStatus> status() const;
  // Of each GPU with slices here: since the worker began, time in which components ran on any slice
  // of it.
  std::map<uint32_t, Duration> gpu_time() const;
  // The same for one tenant, as JSON: functions of others have no names there.
  std::string slices_json(TenantId tenant) const;
  struct Counts {
    uint64_t queued = 0;
    uint64_t running = 0;
    uint64_t completed = 0;  // since the worker began
    uint64_t in_time = 0;    // of those with an SLO
    uint64_t late = 0;
    Duration mig_time{};  // in which slices were at work for it, added up
  };
  Counts counts(FunctionId function) const;
  size_t queued() const;  // of all functions
  // How often one of the queue of this function has its turn: zero if that is not known.
  Duration turn(FunctionId function) const;
  // Its definition, profile and instances, as JSON. NOT_FOUND.
  Result<std::string> describe(FunctionId function) const;

 private:
  friend class PipelineMeasurement;
  struct Function {
    FunctionSpec spec;
    std::shared_ptr<const PipelinePackage> package;
    pipeline::ProfileEstimate estimate;
    Planned planned;
    bool planning = false;  // again, in the background
    bool is_stale = false;  // and meanwhile more was learnt
    InstanceEnd last_end;   // of an instance; its words are for clients
    Counts counts;
    scheduling::RunningMean took;           // by jobs, per request
    ArrivalRate arrivals;                   // where there is a choice
    std::optional<IsolationStatus> status;  // none: nothing was chosen yet
  };
  struct Live {
    FunctionId function;
    FunctionName name;
    uint64_t revision = 0;
    std::string payload;
    Instant submitted{};
    std::optional<Instant> begun;  // the last time
    bool is_given = false;         // to an instance; otherwise it is queued
    // What its function had waited for when it was queued last, and what it waited for before.
    slice_scheduling::WaitAccounting::Totals mark;
    slice_scheduling::Waits waits;
    StartClass start = StartClass::kWarm;
    DeviceId device;
    std::optional<InvocationResult> end;  // its job is over
    std::shared_ptr<const JobRecord> job;
  };
  struct LiveInstance {
    FunctionId function;
    std::shared_ptr<const PipelinePackage> package;
    std::unique_ptr<PipelineInstance> instance;
    Instant asked{};  // when it was last started or loaded
    StartClass how = StartClass::kCold;
    std::optional<Instant> ready;
  };

  void handle(slice_scheduling::Event event);
  void perform(const slice_scheduling::Action& action);
  void perform(const slice_scheduling::StartInstance& action);
  void perform(const slice_scheduling::StopInstance& action);
  void perform(const slice_scheduling::UnloadInstance& action);
  void perform(const slice_scheduling::LoadInstance& action);
  void perform(const slice_scheduling::GiveJob& action);
  void perform(const slice_scheduling::CompleteRequest& action);
  void perform(const slice_scheduling::WakeAt& action);

  // On these slices; its stage processes' sandboxes are known from now on.
  std::unique_ptr<PipelineInstance> make_instance(const Function& function,
                                                  const pipeline::Placement& placement,
                                                  const std::string& name,
                                                  PipelineInstance::Events events);
  void forget_stage_processes(const PipelineInstance& instance);
  // From the dispatcher, and from the instances that are on it.
  void take_slice(DeviceId device, const Error& why);
  // To the dispatcher again, unless it is lost or being measured on.
  void offer_slice(DeviceId device);
  void end_measurement(FunctionId function, Error why);
  static bool is_on(const PipelineInstance& instance, DeviceId device);
  void job_ended(slice_scheduling::InstanceId id, JobEnd end);
  void instance_ended(slice_scheduling::InstanceId id, InstanceEnd end);
  void learn(Function& function, const PipelinePackage& package, const JobEnd& end);
  void tell_profile(const Function& function);
  // Plans it again, in the background, and then tells the dispatcher.
  void plan_again(Function& function);
  void planned_again(FunctionId id, const PipelinePackage* package, Result<Planned> made);
  static Result<Planned> plan(const PipelineSetting& setting, const FunctionSpec& spec,
                              const PipelinePackage& package,
                              const pipeline::MeasuredProfile& measured);
  // pipeline_isolation.cc
  IsolationStatus choose(const Function& function) const;
  static std::optional<bool> count(Function& function, Outcome outcome, Duration took);
  // pipeline_requests.cc
  RequestRecord record_of(InvocationId id, const Live& live) const;
  void note_queued(Live& live);
  void note_given(Live& live);

  const Slice* slice_of(DeviceId device) const;
  PipelineInstance* instance_of(SandboxId sandbox);

  loop::EventLoop& loop_;
  LogSink& log_;
  StageProcessSandboxes& sandboxes_;
  const PipelineSetting setting_;
  std::unique_ptr<slice_scheduling::SliceDispatcher> dispatcher_;
  const Events events_;
  std::unordered_map<FunctionId, Function> functions_;
  std::unordered_map<InvocationId, Live> requests_;
  slice_scheduling::WaitAccounting waits_;
  RequestTraces traces_;
  std::map<slice_scheduling::InstanceId, LiveInstance> instances_;
  std::unordered_map<SandboxId, PipelineInstance*> stage_processes_;
  std::unique_ptr<PipelineMeasurement> measurement_;  // one that is under way
  struct LiveJob {
    slice_scheduling::InstanceId instance;
    std::vector<InvocationId> requests;
  };
  std::map<slice_scheduling::JobId, LiveJob> jobs_;
  std::map<DeviceId, Duration> busy_;
  std::map<uint32_t, CoveredTime> gpu_busy_;  // by GPU: while any slice of it was at work
  std::map<DeviceId, bool> lost_;
  std::deque<slice_scheduling::Event> waiting_;
  bool handling_ = false;
  loop::TimerId wake_timer_;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace lambent::worker
