#include "node/worker/pipeline_host.h"

#include <algorithm>
#include <utility>

#include "core/domain/limits.h"
#include "core/domain/stopping.h"
#include "node/worker/isolation_choice.h"
#include "node/worker/pipeline_measurement.h"

namespace lambent::worker {

using slice_scheduling::InstanceId;

namespace {

// A change costs a start, and is judged by the arrivals of a minute.
constexpr Duration kChoiceStands = seconds(30);

}  // namespace

PipelineHost::PipelineHost(loop::EventLoop& loop, LogSink& log, StageProcessSandboxes& sandboxes,
                           PipelineSetting setting,
                           std::unique_ptr<slice_scheduling::SliceDispatcher> dispatcher,
                           Events events)
    : loop_(loop),
      log_(log),
      setting_(std::move(setting)),
      dispatcher_(std::move(dispatcher)),
      events_(std::move(events)),
      functions_(log, setting_,
                 {.on_planned =
                      [this](const Planned& planned, bool is_new) {
                        handle(slice_scheduling::FunctionPut{planned, is_new});
                      },
                  .on_profile = events_.on_profile}),
      requests_(loop.clock(), *dispatcher_),
      instances_(loop, sandboxes, setting_),
      status_(loop.clock(), setting_, *dispatcher_, functions_, instances_) {
  for (const Slice& slice : setting_.slices) handle(slice_scheduling::SliceAdded{slice});
}

PipelineHost::~PipelineHost() {
  loop_.cancel(wake_timer_);
  measurement_.reset();
}

// Functions.

Result<PipelineHost::Planned> PipelineHost::check(const PipelineSetting& setting,
                                                  const FunctionSpec& spec,
                                                  const PipelinePackage& package) {
  return PipelineFunctions::check(setting, spec, package);
}

void PipelineHost::put(const FunctionSpec& spec, std::shared_ptr<const PipelinePackage> package,
                       Planned planned, const std::string& learnt) {
  end_measurement(spec.id, {ErrorCode::kAborted, "the function was deployed again"});
  functions_.put(spec, std::move(package), std::move(planned), learnt);
}

void PipelineHost::remove(FunctionId function) {
  if (!functions_.remove(function)) return;
  end_measurement(function, {ErrorCode::kNotFound, "the function was removed"});
  handle(slice_scheduling::FunctionRemoved{function});
}

pipeline::Isolation PipelineHost::isolation_of_next(FunctionId id) {
  Function* function = functions_.find(id);
  if (function == nullptr ||
      function->package->definition.isolation == pipeline::IsolationRule::kSlices) {
    return pipeline::Isolation::kSlices;
  }
  const Instant now = loop_.clock().now();
  function->arrivals.add(now);
  if (!function->status || now - function->status->made >= kChoiceStands) {
    IsolationStatus made = choose_isolation(*function, dispatcher_->world(), setting_, now);
    if (!function->status || function->status->isolation != made.isolation) {
      log_.info("pipeline_isolation",
                {{"function", function->spec.name.name},
                 {"isolation", std::string(pipeline::name_of(made.isolation))},
                 {"reason", made.reasons.empty() ? "" : made.reasons.back()}});
    }
    function->status = std::move(made);
  }
  return function->status->isolation;
}

std::optional<FunctionSpec> PipelineHost::whole(FunctionId id) const {
  const Function* function = functions_.find(id);
  if (function == nullptr || function->spec.gpu.memory == Bytes(0)) return std::nullopt;
  FunctionSpec spec = function->spec;
  spec.kind = FunctionKind::kHandler;
  spec.handler = function->package->definition.handler;
  return spec;
}

std::optional<bool> PipelineHost::ended_whole(FunctionId id, Outcome outcome, Duration took) {
  Function* function = functions_.find(id);
  if (function == nullptr) return std::nullopt;
  return PipelineFunctions::count(*function, outcome, took);
}

// Requests.

Result<void> PipelineHost::submit(InvocationRequest& request, const FunctionSpec& spec) {
  RETURN_IF_ERROR(check_event(request.payload));
  requests_.add(request, spec);
  // What is asynchronous was acknowledged before.
  const bool acknowledged = request.acknowledged || request.kind == InvocationKind::kAsynchronous;
  handle(slice_scheduling::RequestSubmitted{request.id, spec.id, acknowledged});
  return {};
}

void PipelineHost::cancel(InvocationId request) {
  if (has(request)) handle(slice_scheduling::RequestCancelled{request});
}

Result<std::string> PipelineHost::trace(TenantId tenant, InvocationId request) const {
  ASSIGN_OR_RETURN(const RequestRecord record, requests_.record(tenant, request));
  return json_of(record, [&](FunctionId id) { return functions_.name_for(tenant, id); });
}

// Events and actions.

void PipelineHost::handle(slice_scheduling::Event event) {
  waiting_.push_back(std::move(event));
  if (handling_) return;
  handling_ = true;
  while (!waiting_.empty()) {
    const slice_scheduling::Event next = std::move(waiting_.front());
    waiting_.pop_front();
    std::vector<slice_scheduling::Action> actions;
    const Instant now = loop_.clock().now();
    dispatcher_->handle(next, now, actions);
    requests_.look(now);
    // An action may bring up events, but those wait.
    for (const slice_scheduling::Action& action : actions) perform(action);
  }
  handling_ = false;
}

void PipelineHost::perform(const slice_scheduling::Action& action) {
  std::visit([this](const auto& each) { perform(each); }, action);
}

void PipelineHost::perform(const slice_scheduling::StartInstance& action) {
  const InstanceId id = action.instance;
  const Function* function = functions_.find(action.function);
  if (function == nullptr) {
    return handle(
        slice_scheduling::InstanceEnded{id, {ErrorCode::kNotFound, "the function was removed"}});
  }
  PipelineInstances::LiveInstance live;
  live.function = action.function;
  live.package = function->package;
  live.asked = loop_.clock().now();
  live.instance = instances_.make(function->spec, function->package, action.placement,
                                  std::to_string(id.value), instance_events(id));
  log_.debug("pipeline_start",
             {{"function", function->spec.name.name},
              {"instance", static_cast<int64_t>(id.value)},
              {"stages", static_cast<int64_t>(action.placement.partition.stages.size())},
              {"processes", static_cast<int64_t>(action.placement.slices.size())}});
  instances_.add(id, std::move(live)).instance->start();
}

PipelineInstance::Events PipelineHost::instance_events(InstanceId id) {
  PipelineInstance::Events events;
  events.on_ready = [this, id] { instance_ready(id); };
  events.on_unloaded = [this, id] { handle(slice_scheduling::InstanceUnloaded{id}); };
  events.on_job = [this, id](JobEnd end) { job_ended(id, std::move(end)); };
  events.on_ending = [this, id] { handle(slice_scheduling::InstanceEnding{id}); };
  events.on_end = [this, id](InstanceEnd end) { instance_ended(id, std::move(end)); };
  return events;
}

void PipelineHost::instance_ready(InstanceId id) {
  PipelineInstances::LiveInstance& live = *instances_.find(id);
  live.ready = loop_.clock().now();
  if (live.how == StartClass::kCold) {
    Function* owner = functions_.find(live.function);
    if (owner != nullptr) owner->estimate.add_start(*live.ready - live.asked);
  }
  handle(slice_scheduling::InstanceReady{id});
}

void PipelineHost::perform(const slice_scheduling::StopInstance& action) {
  if (auto* live = instances_.find(action.instance)) {
    live->instance->stop({ErrorCode::kCancelled, "the instance was stopped"}, "Sandbox.Stopped");
  }
}

void PipelineHost::perform(const slice_scheduling::UnloadInstance& action) {
  if (auto* live = instances_.find(action.instance)) live->instance->unload();
}

void PipelineHost::perform(const slice_scheduling::LoadInstance& action) {
  auto* live = instances_.find(action.instance);
  if (live == nullptr) return;
  live->asked = loop_.clock().now();
  live->how = StartClass::kGpuCold;
  live->ready.reset();
  live->instance->load();
}

void PipelineHost::perform(const slice_scheduling::GiveJob& action) {
  auto* instance = instances_.find(action.instance);
  if (instance == nullptr) return;  // its end is on the way, and gives the job back
  const Instant now = loop_.clock().now();
  std::vector<JobRequest> requests;
  for (const InvocationId id : action.requests) {
    PipelineRequests::Live& live = requests_.at(id);
    // A copy: it is needed once more if the instance ends under it.
    requests.push_back({id, live.payload});
    const bool is_first = !live.begun;
    requests_.note_given(live);
    live.begun = now;
    live.device = instance->instance->placement().slices.front();
    const bool waited = instance->ready && *instance->ready > live.submitted;
    live.start = waited ? instance->how : StartClass::kWarm;
    if (is_first && events_.on_begin) events_.on_begin(id);
  }
  jobs_[action.job] = {action.instance, action.requests};
  instance->instance->give(action.job, std::move(requests), action.alone);
}

void PipelineHost::perform(const slice_scheduling::CompleteRequest& action) {
  PipelineRequests::Live live = requests_.take(action.request);
  RequestRecord record = requests_.record_of(action.request, live);
  InvocationResult end;
  if (live.end && !action.error) end = std::move(*live.end);
  end.id = action.request;
  end.start = live.start;
  if (live.begun) end.device = live.device;
  end.revision = live.revision;
  end.phases = phases_of(record);
  const slice_scheduling::WaitCause longest = slice_scheduling::longest_queueing(record.waits);
  if (longest.reason != slice_scheduling::SliceWait::kNone) {
    end.wait_reason = slice_scheduling::name_of(longest.reason);
  }
  Function* owner = functions_.find(live.function);
  if (action.error) {
    if (!live.begun) end.start = StartClass::kCold;  // none came up for it
    end.outcome = Outcome::kRejected;
    end.error = action.error;
    if (!live.begun) end.error = stopping_error_of(*action.error, live.within_run);
    // An instance ended under it, or none came up: the client gets that sandbox's own words.
    if (owner != nullptr && !owner->last_end.payload.empty() &&
        owner->last_end.error == *action.error) {
      const InstanceEnd& last = owner->last_end;
      end.outcome = Outcome::kFunctionError;
      end.payload = last.payload;
      end.error_type = last.error_type;
      end.log_tail = last.log_tail;
    }
  }
  if (owner != nullptr) {
    end.in_time = PipelineFunctions::count(*owner, end.outcome, record.took);
  }
  record.state = name_of(end.outcome);
  if (end.error) record.error = end.error->message;
  if (record.error.empty()) record.error = end.error_type;
  requests_.keep(std::move(record));
  events_.on_end(std::move(end));
}

void PipelineHost::perform(const slice_scheduling::WakeAt& action) {
  loop_.cancel(wake_timer_);
  wake_timer_ = {};
  if (action.when == kNever) return;
  wake_timer_ = loop_.call_at(action.when, [this] { handle(slice_scheduling::TimerFired{}); });
}

// Instances.

void PipelineHost::job_ended(InstanceId id, JobEnd end) {
  const auto job = jobs_.find(end.job);
  CHECK(job != jobs_.end(), "a job ends once");
  const std::vector<InvocationId> requests = std::move(job->second.requests);
  jobs_.erase(job);
  const PipelineInstances::LiveInstance& live = *instances_.find(id);
  const auto record = std::make_shared<const JobRecord>(
      JobRecord{live.package, id, requests.size(), end.stage_processes, end.readings});
  for (size_t i = 0; i < requests.size(); ++i) {
    RequestAnswer& answer = end.results[i];
    InvocationResult result;
    result.outcome = answer.succeeded ? Outcome::kSucceeded : Outcome::kFunctionError;
    result.payload = std::move(answer.payload);
    result.error_type = std::move(answer.error_type);
    result.device_memory_peak = end.device_memory_peak;
    result.log_tail = end.log_tail;
    PipelineRequests::Live& request = requests_.at(requests[i]);
    request.end = std::move(result);
    request.job = record;
  }
  if (Function* owner = functions_.find(live.function)) {
    owner->counts.mig_time += instances_.count_busy(end);
    functions_.learn(*owner, *live.package, end);
    const auto count = static_cast<int64_t>(std::max<size_t>(requests.size(), 1));
    owner->took.learn(end.execution / count);
  }
  handle(slice_scheduling::JobFinished{end.job, end.execution});
}

void PipelineHost::instance_ended(InstanceId id, InstanceEnd end) {
  const FunctionId function = instances_.find(id)->function;
  instances_.remove(id);
  for (const auto& [job, of] : jobs_) {
    if (of.instance != id) continue;
    for (const InvocationId request : of.requests) requests_.note_queued(requests_.at(request));
  }
  std::erase_if(jobs_, [&](const auto& job) { return job.second.instance == id; });
  log_.debug("pipeline_end",
             {{"instance", static_cast<int64_t>(id.value)}, {"error", to_string(end.error)}});
  if (Function* owner = functions_.find(function)) {
    owner->last_end = end;
    if (end.error_type != "Sandbox.Stopped") {
      log_.warning("pipeline_instance_ended", {{"function", owner->spec.name.name},
                                               {"instance", static_cast<int64_t>(id.value)},
                                               {"error", to_string(end.error)}});
    }
  }
  handle(slice_scheduling::InstanceEnded{id, end.error, std::move(end.blamed)});
}

// Slices.

void PipelineHost::device_reading(DeviceId device, bool lost) {
  if (setting_.slice(device) == nullptr || lost_[device] == lost) return;
  lost_[device] = lost;
  functions_.note_slice(device, lost);
  if (!lost) return offer_slice(device);
  log_.warning("slice_lost", {{"gpu", place_name(device)}});
  const Error why{ErrorCode::kUnavailable,
                  "the GPU " + place_name(device) + " was lost or drained"};
  if (measurement_ != nullptr && measurement_->has(device)) return measurement_->cancel(why);
  take_slice(device, why);
}

void PipelineHost::offer_slice(DeviceId device) {
  const bool is_measured = measurement_ != nullptr && measurement_->has(device);
  if (!lost_[device] && !is_measured) handle(slice_scheduling::SliceAdded{*setting_.slice(device)});
}

void PipelineHost::take_slice(DeviceId device, const Error& why) {
  const std::vector<InstanceId> ending = instances_.on(device);
  // Functions that need it wait: it comes back, if it can.
  handle(slice_scheduling::SliceLost{.slice = device, .returns = true});
  instances_.abandon(ending, why);
}

// Measurements.

void PipelineHost::measure(FunctionId function, std::string event, unsigned repeat,
                           std::function<void(Result<std::string>)> done) {
  if (measurement_ != nullptr) {
    return done(Error{ErrorCode::kResourceExhausted, "a function is being measured already"});
  }
  const Function* owner = functions_.find(function);
  if (owner == nullptr) {
    return done(Error{ErrorCode::kNotFound, "there is no such pipeline function"});
  }
  if (event.size() > limits::kSyncPayload.count) {
    return done(Error{ErrorCode::kOutOfRange,
                      "the event has " + std::to_string(event.size()) + " bytes; at most " +
                          std::to_string(limits::kSyncPayload.count) + " are taken"});
  }
  if (const auto good = check_event(event); !good.ok()) return done(good.error());
  PipelineMeasurement::Dependencies dependencies{
      loop_,
      setting_,
      *dispatcher_,
      functions_,
      instances_,
      [this](DeviceId slice, const Error& why) { take_slice(slice, why); },
      [this](DeviceId slice) { offer_slice(slice); },
      [this] { measurement_.reset(); }};
  measurement_ = std::make_unique<PipelineMeasurement>(
      std::move(dependencies), function, owner->package, std::move(event), repeat, std::move(done));
  measurement_->begin();
}

void PipelineHost::drain() {
  if (measurement_ != nullptr) {
    measurement_->cancel({ErrorCode::kUnavailable, "the worker is stopping; try again elsewhere"});
  }
  handle(slice_scheduling::DrainStarted{});
}

void PipelineHost::end_measurement(FunctionId function, Error why) {
  if (measurement_ != nullptr && measurement_->function() == function) {
    measurement_->cancel(std::move(why));
  }
}

}  // namespace lambent::worker
