#include "sim/slice_simulator/run.h"

#include <algorithm>
#include <optional>

#include "core/base/check.h"

namespace lambent::slice_simulator {
namespace {

using slice_scheduling::Action;
using slice_scheduling::Event;
using slice_scheduling::InstanceId;
using slice_scheduling::JobId;

class Run {
 public:
  Run(const Scene& scene, const Decide& decide)
      : scene_(scene),
        decide_(decide),
        machine_(scene, [this](const Event& event, Instant now) { told(event, now); }) {}

  RunResult go() {
    const Instant start{};
    for (const Slice& slice : scene_.slices) handle(slice_scheduling::SliceAdded{slice}, start);
    std::map<FunctionId, Duration> slo;
    for (const auto& function : scene_.functions) {
      slo[function->id] = function->slo;
      handle(slice_scheduling::FunctionPut{function, true}, start);
    }
    result_.requests.resize(scene_.arrivals.size());
    for (size_t i = 0; i < scene_.arrivals.size(); ++i) {
      const Arrival& arrival = scene_.arrivals[i];
      until(arrival.at);
      if (watched_before_.empty() && arrival.at >= scene_.watched_from) {
        watched_before_ = machine_.slice_use(arrival.at);
      }
      RequestOutcome& outcome = result_.requests[i];
      outcome.function = arrival.function;
      outcome.submitted = arrival.at;
      const Duration within = slo[arrival.function];
      outcome.deadline = within > Duration::zero() ? arrival.at + within : kNever;
      ++open_;
      handle(slice_scheduling::RequestSubmitted{request_id(i), arrival.function}, arrival.at);
    }
    const Instant last = scene_.arrivals.empty() ? start : scene_.arrivals.back().at;
    result_.watched = machine_.slice_use(last);
    for (auto& [slice, use] : result_.watched) {
      const Use& before = watched_before_[slice];
      use = {use.busy - before.busy, use.held - before.held, use.coming - before.coming};
    }
    const Instant end = last + scene_.drain;
    while (open_ > 0 && next() <= end) until(next());
    result_.ended = open_ == 0 ? std::max(last_answer_, last) : end;
    result_.slices = machine_.slice_use(result_.ended);
    result_.gpus = machine_.gpu_use(result_.ended);
    result_.copied = machine_.copied();
    result_.impossible.insert(result_.impossible.begin(), machine_.impossible().begin(),
                              machine_.impossible().end());
    return std::move(result_);
  }

 private:
  struct OpenJob {
    std::vector<InvocationId> requests;
    Duration queue_before{};
    JobTimes times;
    Instant given{};
    Machine::Coming coming;
    InstanceId instance;
  };

  Instant next() const { return std::min(machine_.next(), wake_); }

  void until(Instant to) {
    while (next() <= to && next() != kNever) {
      const Instant now = next();
      if (wake_ <= now) {
        wake_ = kNever;
        handle(slice_scheduling::TimerFired{}, now);
      }
      machine_.run_until(now);
    }
  }

  void told(const Event& event, Instant now) {
    if (const auto* finished = std::get_if<slice_scheduling::JobFinished>(&event)) {
      job_finished(finished->job, now);
    } else if (const auto* ended = std::get_if<slice_scheduling::InstanceEnded>(&event)) {
      stage_processes_of_.erase(ended->instance);
      std::erase_if(jobs_, [&](const auto& job) { return job.second.instance == ended->instance; });
    }
    handle(event, now);
  }

  void job_finished(JobId id, Instant now) {
    const auto found = jobs_.find(id);
    const JobTimes* times = machine_.times_of(id);
    CHECK(found != jobs_.end() && times != nullptr, "a job finished that was never given");
    const OpenJob& job = found->second;
    for (const InvocationId request : job.requests) {
      RequestOutcome& outcome = result_.requests[request.low];
      outcome.execution = times->execution;
      outcome.transfer = times->transfer;
      const Instant came = std::max(outcome.submitted, job.coming.began);
      const Instant there = std::min(job.given, job.coming.there);
      outcome.load = std::max(Duration::zero(), there - came);
      // Stage processes that work side by side on different stages may have worked longer than it
      // took.
      Duration left = now - outcome.submitted - outcome.load;
      for (Duration* part : {&outcome.execution, &outcome.transfer}) {
        *part = std::min(*part, left);
        left -= *part;
      }
      outcome.queue = left;
    }
    jobs_.erase(found);
  }

  void handle(const Event& event, Instant now) {
    ++result_.events;
    std::vector<Action> actions;
    decide_(event, now, actions);
    for (const Action& action : actions) {
      std::visit([&](const auto& one) { note(one, now); }, action);
      machine_.perform(action, now);
    }
  }

  void note(const slice_scheduling::StartInstance& start, Instant) {
    ++result_.starts;
    const size_t stage_processes = start.placement.slices.size();
    if (stage_processes > 1) ++result_.pipelines;
    stage_processes_of_[start.instance] = stage_processes;
  }
  void note(const slice_scheduling::StopInstance&, Instant) { ++result_.stops; }
  void note(const slice_scheduling::UnloadInstance&, Instant) { ++result_.unloads; }
  void note(const slice_scheduling::LoadInstance&, Instant) { ++result_.loads; }
  void note(const slice_scheduling::WakeAt& wake, Instant now) { wake_ = std::max(wake.when, now); }
  void note(const slice_scheduling::GiveJob& given, Instant now) {
    ++result_.jobs;
    if (stage_processes_of_[given.instance] > 1) ++result_.pipeline_jobs;
    OpenJob& job = jobs_[given.job];
    job.requests = given.requests;
    job.given = now;
    job.instance = given.instance;
    if (const Machine::Coming* coming = machine_.coming_of(given.instance)) job.coming = *coming;
    for (const InvocationId request : given.requests) {
      if (request.low >= result_.requests.size() ||
          result_.requests[request.low].completed != kNever) {
        result_.impossible.push_back("a request that is complete or unknown was given to a job");
      }
    }
  }
  void note(const slice_scheduling::CompleteRequest& complete, Instant now) {
    if (complete.request.low >= result_.requests.size() ||
        result_.requests[complete.request.low].completed != kNever) {
      result_.impossible.push_back("a request was completed twice, or is unknown");
      return;
    }
    RequestOutcome& outcome = result_.requests[complete.request.low];
    outcome.completed = now;
    outcome.error = complete.error;
    if (complete.error) outcome.queue = now - outcome.submitted;
    last_answer_ = now;
    --open_;
  }

  const Scene& scene_;
  const Decide& decide_;
  Machine machine_;
  RunResult result_;
  std::map<JobId, OpenJob> jobs_;
  std::map<InstanceId, size_t> stage_processes_of_;
  std::map<DeviceId, Use> watched_before_;
  Instant wake_ = kNever;
  Instant last_answer_{};
  size_t open_ = 0;
};

}  // namespace

InvocationId request_id(size_t arrival) { return {0, arrival}; }

RunResult run(const Scene& scene, const Decide& decide) { return Run(scene, decide).go(); }

}  // namespace lambent::slice_simulator
