#include "node/worker/pipeline_instance.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "core/base/fd.h"
#include "core/domain/limits.h"
#include "decide/pipeline/limits.h"
#include "node/runtime_api/error_type.h"
#include "node/sandbox/limits.h"

namespace lambent::worker {
namespace {

using slice_scheduling::JobId;

// Beside its channels a stage process is shown its description, and what any function of a GPU is.
static_assert(pipeline::limits::kChannelsOfProcess + 16 <= limits::kSandboxBinds);

// Models are large, and a start reads them from the disk.
constexpr Duration kStartTimeout = seconds(120);
// How long the end of a stage may take to be heard of, once others have seen its channel break.
constexpr Duration kEndIsHeard = milliseconds(500);
// A process that does not move its memory must not keep others from its slice.
constexpr Duration kMoveTimeout = seconds(30);

RequestAnswer failure_of(const std::string& type, const std::string& message) {
  return {false, runtime_api::error_json(type, message), type};
}

}  // namespace

PipelineInstance::PipelineInstance(loop::EventLoop& loop, StageProcessSandboxes& sandboxes,
                                   Request request, Events events)
    : loop_(loop),
      sandboxes_(sandboxes),
      request_(std::move(request)),
      events_(std::move(events)),
      plans_(plan_stage_processes(request_.package->definition.dag, request_.placement)),
      stage_processes_(plans_.stage_processes.size()) {
  for (StageProcess& stage_process : stage_processes_) stage_process.sandbox = sandboxes_.next_id();
}

PipelineInstance::~PipelineInstance() {
  for (StageProcess& stage_process : stage_processes_) loop_.cancel(stage_process.timer);
  loop_.cancel(start_timer_);
  loop_.cancel(broken_timer_);
  loop_.cancel(move_timer_);
  std::error_code ignored;
  std::filesystem::remove_all(request_.folder, ignored);
}

std::vector<SandboxId> PipelineInstance::sandboxes() const {
  std::vector<SandboxId> all;
  for (const StageProcess& stage_process : stage_processes_) all.push_back(stage_process.sandbox);
  return all;
}

size_t PipelineInstance::index_of(SandboxId sandbox) const {
  const auto found = std::find_if(
      stage_processes_.begin(), stage_processes_.end(),
      [&](const StageProcess& stage_process) { return stage_process.sandbox == sandbox; });
  CHECK(found != stage_processes_.end(), "a stage process's sandbox belongs to its instance");
  return static_cast<size_t>(found - stage_processes_.begin());
}

Result<void> PipelineInstance::make_channels() {
  std::error_code error;
  std::filesystem::create_directories(request_.folder, error);
  if (error)
    return Error{ErrorCode::kInternal, "create " + request_.folder + ": " + error.message()};
  for (size_t channel = 0; channel < plans_.channels.size(); ++channel) {
    RETURN_IF_ERROR(sandboxes_.make_channel(request_.folder + "/" + std::to_string(channel),
                                            slots_of(plans_, channel), request_.slot));
  }
  for (size_t stage_process = 0; stage_process < stage_processes_.size(); ++stage_process) {
    const auto& definition = request_.package->definition;
    RETURN_IF_ERROR(write_file_atomically(
        request_.folder + "/stage-" + std::to_string(stage_process) + ".json",
        stage_json(plans_, stage_process, definition.dag, definition.handler), false));
  }
  return {};
}

StageProcessExtras PipelineInstance::extras_of(size_t stage_process) const {
  StageProcessExtras extras;
  extras.most_response = limits::kResponsePayload * (request_.package->definition.most_batch + 1);
  extras.in_flight = pipeline::kJobsInFlight;
  extras.environment["LAMBENT_STAGE"] = kStageFile;
  extras.binds.push_back(
      {request_.folder + "/stage-" + std::to_string(stage_process) + ".json", kStageFile});
  for (const auto* channels : {&plans_.stage_processes[stage_process].receives,
                               &plans_.stage_processes[stage_process].sends}) {
    for (const size_t channel : *channels) {
      extras.binds.push_back(
          {request_.folder + "/" + std::to_string(channel), channel_path(channel), true});
    }
  }
  return extras;
}

void PipelineInstance::start() {
  if (const auto made = make_channels(); !made.ok()) {
    for (StageProcess& stage_process : stage_processes_) stage_process.gone = true;
    end_ = {made.error(), "Sandbox.Failure", "", ""};
    // The caller is in the middle of handling an event: the answer comes in the next turn.
    start_timer_ = loop_.call_after(Duration(0), [this] { end_if_gone(); });
    return;
  }
  start_timer_ = loop_.call_after(kStartTimeout, [this] {
    stop({ErrorCode::kDeadlineExceeded, "a stage was not ready " +
                                            std::to_string(kStartTimeout / seconds(1)) +
                                            " s after its start"},
         "Sandbox.Timeout");
  });
  for (size_t stage_process = 0; stage_process < stage_processes_.size(); ++stage_process) {
    FunctionSpec spec = request_.spec;
    spec.gpu.memory = request_.device_memory[stage_process];
    sandboxes_.start(stage_processes_[stage_process].sandbox, spec,
                     request_.placement.slices[stage_process], extras_of(stage_process));
  }
}

void PipelineInstance::stage_process_ready(SandboxId sandbox) {
  stage_processes_[index_of(sandbox)].ready = true;
  const bool all =
      std::all_of(stage_processes_.begin(), stage_processes_.end(),
                  [](const StageProcess& stage_process) { return stage_process.ready; });
  if (!all || end_ || std::exchange(started_, true)) return;
  loop_.cancel(start_timer_);
  events_.on_ready();
}

void PipelineInstance::give(JobId id, std::vector<JobRequest> requests, bool alone) {
  Job& job = jobs_[id];
  job.requests = std::move(requests);
  job.alone = alone;
  job.given = loop_.clock().now();
  job.turn = turns_++;
  job.end.job = id;
  for (size_t stage_process = 0; stage_process < stage_processes_.size(); ++stage_process) {
    const pipeline::Process& process = plans_.stage_processes[stage_process].process;
    if (!process.takes(job.turn)) continue;
    job.end.stage_processes.push_back({request_.placement.slices[stage_process], process.stage});
    stage_processes_[stage_process].waiting.push_back(id);
    ++job.stage_processes_left;
  }
  for (size_t stage_process = 0; stage_process < stage_processes_.size(); ++stage_process)
    begin_next(stage_process);
}

void PipelineInstance::begin_next(size_t index) {
  StageProcess& stage_process = stage_processes_[index];
  while (!stage_process.waiting.empty() && !end_ && !is_broken_) {
    const JobId id = stage_process.waiting.front();
    Job& job = jobs_.at(id);
    if (!has_room(stage_process, job)) return;
    stage_process.waiting.pop_front();
    time_in(job, index).began = loop_.clock().now() - job.given;
    std::vector<std::string_view> events;
    if (plans_.stage_processes[index].needs_events) {
      for (const JobRequest& request : job.requests) events.push_back(request.payload);
    }
    InvocationRequest request;
    request.id = job.requests.front().id;
    request.payload = stage_process_payload(id, job.requests.size(), job.turn, events);
    // What it may wait for here is said at once, as it waits in its sandbox.
    size_t requests = requests_before_end(job, index);
    for (const Held& before : stage_process.held) requests += requests_of(before.job);
    stage_process.held.push_back({id, request.id});
    if (stage_process.held.size() == 1) watch_oldest(index);
    sandboxes_.deliver(stage_process.sandbox, request,
                       request_.spec.timeout * static_cast<int64_t>(requests));
  }
}

bool PipelineInstance::has_room(const StageProcess& stage_process, const Job& job) const {
  if (stage_process.held.empty()) return true;
  const bool beside =
      !job.alone &&
      std::none_of(stage_process.held.begin(), stage_process.held.end(), [this](const Held& each) {
        const auto found = jobs_.find(each.job);
        return found != jobs_.end() && found->second.alone;
      });
  return beside && stage_process.held.size() < pipeline::kJobsInFlight;
}

void PipelineInstance::watch_oldest(size_t index) {
  StageProcess& stage_process = stage_processes_[index];
  loop_.cancel(stage_process.timer);
  const auto found = jobs_.find(stage_process.held.front().job);
  const size_t requests = found != jobs_.end() ? requests_before_end(found->second, index) : 1;
  stage_process.timer = loop_.call_after(request_.spec.timeout * static_cast<int64_t>(requests),
                                         [this, index] { time_out(index); });
}

size_t PipelineInstance::requests_of(JobId job) const {
  const auto found = jobs_.find(job);
  return found != jobs_.end() ? found->second.requests.size() : 0;
}

size_t PipelineInstance::requests_before_end(const Job& job, size_t index) const {
  const pipeline::Process& own = plans_.stage_processes[index].process;
  std::vector<size_t> of_stage_process(own.stage_process);
  std::vector<size_t> of_stage(own.stage + 1, job.requests.size());
  for (size_t i = 0; plans_.stage_processes[i].process.stage_process < own.stage_process; ++i) {
    const pipeline::Process& earlier = plans_.stage_processes[i].process;
    size_t& left = of_stage_process[earlier.stage_process];
    const auto count = [&](JobId id) {
      const auto found = jobs_.find(id);
      if (found != jobs_.end() && found->second.turn <= job.turn) {
        left += found->second.requests.size();
      }
    };
    for (const Held& each : stage_processes_[i].held) count(each.job);
    for (const JobId id : stage_processes_[i].waiting) count(id);
    of_stage[earlier.stage] = std::max(of_stage[earlier.stage], left);
  }
  return std::accumulate(of_stage.begin(), of_stage.end(), size_t{0});
}

void PipelineInstance::time_out(size_t index) {
  const JobId job = stage_processes_[index].held.front().job;
  const std::string message = "Task timed out after " +
                              std::to_string(request_.spec.timeout / milliseconds(1)) + " ms in " +
                              name_of(index);
  const Error error{ErrorCode::kDeadlineExceeded, message};
  events_.on_ending();
  // It is told first: the others that are in it start again elsewhere, this one does not.
  fail(job, failure_of("Sandbox.Timeout", message));
  abandon(error, "Sandbox.Timeout");
}

void PipelineInstance::stage_process_answered(SandboxId sandbox, HandlerAnswer answer) {
  const size_t index = index_of(sandbox);
  StageProcess& stage_process = stage_processes_[index];
  const auto held =
      std::find_if(stage_process.held.begin(), stage_process.held.end(),
                   [&](const Held& each) { return each.invocation == answer.invocation; });
  if (held == stage_process.held.end()) return;
  const JobId id = held->job;
  stage_process.held.erase(held);
  loop_.cancel(stage_process.timer);
  if (!stage_process.held.empty()) watch_oldest(index);
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return begin_next(index);
  Job& job = found->second;
  const StageProcessPlan& plan = plans_.stage_processes[index];
  auto read = answer.succeeded
                  ? parse_stage_process_answer(answer.payload, request_.package->definition.dag,
                                               plan.components, job.requests.size(), plan.gathers)
                  : Result<StageProcessAnswer>(Error{ErrorCode::kInternal, "the stage failed"});
  // Then the job has no answer: it is still in here when this ends, and begins again elsewhere.
  if (read.ok() && read->is_broken) return channel_broke(name_of(index));
  stage_process.answered = id;
  if (!answer.succeeded) {
    job.failure = {false, std::move(answer.payload), std::move(answer.error_type)};
  } else if (!read.ok()) {
    job.failure = failure_of("Runtime.InvalidResponse", read.error().message);
  } else {
    JobEnd::StageProcessTime& time = time_in(job, index);
    // What a stage process says took no longer than the job did.
    const Duration most = loop_.clock().now() - job.given;
    time.queue = std::min(read->queue, most);
    time.wait = std::min(read->wait, most);
    time.receive = std::min(read->receive, most);
    time.send = std::min(read->send, most);
    for (ComponentReading& reading : read->components) {
      reading.time = std::min(reading.time, most);
      time.busy = std::min(time.busy + reading.time, most);
      job.end.readings.emplace_back(time.slice, reading);
    }
    if (plan.gathers) job.end.results = std::move(read->results);
  }
  time_in(job, index).ended = loop_.clock().now() - job.given;
  job.end.log_tail += answer.log_tail;
  job.end.device_memory_peak = std::max(job.end.device_memory_peak, answer.device_memory_peak);
  if (--job.stage_processes_left == 0) finish(id);
  begin_next(index);
}

std::string PipelineInstance::name_of(size_t stage_process) const {
  std::string names;
  for (const size_t component : plans_.stage_processes[stage_process].components) {
    names +=
        (names.empty() ? "" : ", ") + request_.package->definition.dag.components[component].name;
  }
  const pipeline::Process& process = plans_.stage_processes[stage_process].process;
  std::string name = "stage " + std::to_string(process.stage) + " (" + names + ")";
  if (process.replicas > 1) name += ", replica " + std::to_string(process.replica);
  return name + " on slice " + place_name(request_.placement.slices[stage_process]);
}

void PipelineInstance::channel_broke(const std::string& what) {
  if (end_ || std::exchange(is_broken_, true)) return;
  events_.on_ending();
  broken_timer_ = loop_.call_after(kEndIsHeard, [this, what] {
    stop({ErrorCode::kInternal, "a channel of " + what + " broke"}, "Sandbox.Failure");
  });
}

void PipelineInstance::fail(JobId id, RequestAnswer failure) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  found->second.failure = std::move(failure);
  finish(id);
}

void PipelineInstance::finish(JobId id) {
  Job job = std::move(jobs_.at(id));
  jobs_.erase(id);
  if (job.failure) job.end.results.assign(job.requests.size(), *job.failure);
  if (job.end.log_tail.size() > limits::kLogTail.count) {
    job.end.log_tail.erase(0, job.end.log_tail.size() - limits::kLogTail.count);
  }
  job.end.execution = loop_.clock().now() - job.given;
  events_.on_job(std::move(job.end));
}

void PipelineInstance::unload() {
  limit_move();
  sandboxes_.move_memory_out(stage_processes_.front().sandbox);
}

void PipelineInstance::load() {
  limit_move();
  sandboxes_.move_memory_in(stage_processes_.front().sandbox);
}

void PipelineInstance::limit_move() {
  loop_.cancel(move_timer_);
  move_timer_ = loop_.call_after(kMoveTimeout, [this] {
    stop({ErrorCode::kDeadlineExceeded, "its device memory was not moved within " +
                                            std::to_string(kMoveTimeout / seconds(1)) + " s"},
         "Sandbox.Timeout");
  });
}

void PipelineInstance::memory_moved(SandboxId, const MemoryMove& move) {
  if (end_) return;
  loop_.cancel(move_timer_);
  if (!move.done) {
    // Its slice is promised to others: it goes altogether, and starts again when it is wanted.
    return stop({ErrorCode::kAborted,
                 std::string("its device memory could not be moved ") + (move.out ? "out" : "in")},
                "Sandbox.Stopped");
  }
  if (move.out) {
    events_.on_unloaded();
  } else {
    events_.on_ready();
  }
}

void PipelineInstance::stop(Error error, std::string error_type) {
  if (end_) return;
  loop_.cancel(start_timer_);
  loop_.cancel(broken_timer_);
  loop_.cancel(move_timer_);
  events_.on_ending();
  end_ = {error, error_type, runtime_api::error_json(error_type, error.message), ""};
  for (size_t channel = 0; channel < plans_.channels.size(); ++channel) {
    sandboxes_.end_channel(request_.folder + "/" + std::to_string(channel));
  }
  for (StageProcess& stage_process : stage_processes_) {
    loop_.cancel(stage_process.timer);
    if (!stage_process.gone) sandboxes_.stop(stage_process.sandbox, error, error_type);
  }
}

void PipelineInstance::abandon(Error error, std::string error_type) {
  stop(std::move(error), std::move(error_type));
  end_->blamed.emplace();
}

void PipelineInstance::stage_process_ended(SandboxEnd end) {
  const size_t index = index_of(end.sandbox);
  StageProcess& stage_process = stage_processes_[index];
  stage_process.gone = true;
  if (!end_) {
    // A runtime that could not load the function says why itself.
    const bool is_told = end.error.code == ErrorCode::kFailedPrecondition;
    if (!is_told) end.error.message += " in " + name_of(index);
    // What it was given when its end was on the way already, it never saw.
    const std::vector<JobId> seen = seen_by(stage_process, end.unseen);
    if (end.by_itself) fail_the_only_one(seen, end);
    stop(end.error, end.error_type);
    if (is_told) end_->payload = std::move(end.payload);
    end_->log_tail = std::move(end.log_tail);
    end_->blamed = seen;
    // It is not over, and what this stage did for it may have been the end of the stage: a broken
    // context is found after the answer.
    const bool answered = stage_process.answered && jobs_.contains(*stage_process.answered);
    if (answered && (end_->blamed->empty() || end.context_is_broken)) {
      end_->blamed->push_back(*stage_process.answered);
    }
  }
  end_if_gone();
}

std::vector<JobId> PipelineInstance::seen_by(const StageProcess& stage_process,
                                             const std::vector<InvocationId>& unseen) {
  std::vector<JobId> seen;
  for (const Held& each : stage_process.held) {
    if (std::ranges::find(unseen, each.invocation) == unseen.end()) seen.push_back(each.job);
  }
  return seen;
}

void PipelineInstance::fail_the_only_one(const std::vector<JobId>& seen, const SandboxEnd& end) {
  if (seen.size() != 1) return;
  const auto found = jobs_.find(seen.front());
  if (found == jobs_.end() || found->second.requests.size() != 1) return;
  events_.on_ending();
  found->second.end.log_tail += end.log_tail;
  // It is told first: the others that are in here start again elsewhere, this one does not.
  fail(seen.front(), failure_of(end.error_type, end.error.message));
}

void PipelineInstance::end_if_gone() {
  const bool all =
      std::all_of(stage_processes_.begin(), stage_processes_.end(),
                  [](const StageProcess& stage_process) { return stage_process.gone; });
  if (all) events_.on_end(std::move(*end_));
}

}  // namespace lambent::worker
