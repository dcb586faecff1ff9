// PipelineHost: pipeline functions on this worker's slices: feeds SliceDispatcher with events and
// performs its actions on instances, whose stage processes are sandboxes. Used on the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/loop/event_loop.h"
#include "decide/slice_scheduling/slice_dispatcher.h"
#include "node/worker/pipeline_functions.h"
#include "node/worker/pipeline_instances.h"
#include "node/worker/pipeline_requests.h"
#include "node/worker/pipeline_status.h"

namespace lambent::worker {

class PipelineMeasurement;

class PipelineHost {
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

  using Planned = PipelineFunctions::Planned;
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
  // As a handler with all components (only slices: for what still waits); none without gpu.memory.
  std::optional<FunctionSpec> whole(FunctionId function) const;
  // An invocation of whole() has ended; whether in time: none: it has no SLO.
  std::optional<bool> ended_whole(FunctionId function, Outcome outcome, Duration took);

  // Takes the payload out of `request`; on_end tells how it went. INVALID_ARGUMENT: its payload is
  // no event.
  Result<void> submit(InvocationRequest& request, const FunctionSpec& spec);
  bool has(InvocationId request) const { return requests_.has(request); }
  // Where its time went, of one that is here or among the last that ended, as JSON
  // (pipeline_trace.h). Functions of other tenants have no names there. NOT_FOUND.
  Result<std::string> trace(TenantId tenant, InvocationId request) const;
  // While it is here: whether it waits or runs, and why it waits.
  std::optional<RequestRecord> explain(InvocationId request) const {
    return requests_.explain(request);
  }
  // No client waits for it any more.
  void cancel(InvocationId request);
  void drain();
  size_t live() const { return requests_.size(); }

  // A device is gone, or is well again.
  void device_reading(DeviceId device, bool lost);

  // Is told what happens to the sandboxes of its stage processes.
  BackendObserver& stage_processes() { return instances_; }

  // Runs the function with this event on one slice of each shape that no instance has just now, one
  // after the other, `repeat` times each after a first one, and makes the medians its profile.
  // `done` gets {"profile": ..., "measured": [shapes], "skipped": [{"shape", "why"}]}, or
  // INVALID_ARGUMENT (the event), NOT_FOUND, RESOURCE_EXHAUSTED (one is measured already),
  // FAILED_PRECONDITION (it could be measured nowhere, and why).
  void measure(FunctionId function, std::string event, unsigned repeat,
               std::function<void(Result<std::string>)> done);

  const PipelineStatus& status() const { return status_; }

 private:
  using Function = PipelineFunctions::Function;
  struct LiveJob {
    slice_scheduling::InstanceId instance;
    std::vector<InvocationId> requests;
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
  PipelineInstance::Events instance_events(slice_scheduling::InstanceId id);
  void instance_ready(slice_scheduling::InstanceId id);
  void instance_ended(slice_scheduling::InstanceId id, InstanceEnd end);
  void job_ended(slice_scheduling::InstanceId id, JobEnd end);

  // From the dispatcher, and from the instances that are on it.
  void take_slice(DeviceId device, const Error& why);
  // To the dispatcher again, unless it is lost or being measured on.
  void offer_slice(DeviceId device);
  void end_measurement(FunctionId function, Error why);

  loop::EventLoop& loop_;
  LogSink& log_;
  const PipelineSetting setting_;
  std::unique_ptr<slice_scheduling::SliceDispatcher> dispatcher_;
  const Events events_;
  PipelineFunctions functions_;
  PipelineRequests requests_;
  PipelineInstances instances_;
  PipelineStatus status_;
  std::unique_ptr<PipelineMeasurement> measurement_;  // one that is under way
  std::map<slice_scheduling::JobId, LiveJob> jobs_;
  std::map<DeviceId, bool> lost_;
  std::deque<slice_scheduling::Event> waiting_;
  bool handling_ = false;
  loop::TimerId wake_timer_;
};

}  // namespace lambent::worker
