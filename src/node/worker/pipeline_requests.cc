// The part of PipelineHost that knows requests: how each came, when an instance was given it, how
// it ended, and where its time went.
#include <algorithm>
#include <utility>

#include "node/worker/pipeline_host.h"

namespace lambent::worker {

using slice_scheduling::InstanceId;

Result<void> PipelineHost::submit(InvocationRequest& request, const FunctionSpec& spec) {
  RETURN_IF_ERROR(check_event(request.payload));
  Live& live = requests_[request.id];
  live.function = spec.id;
  live.name = spec.name;
  live.revision = spec.revision;
  live.payload = std::exchange(request.payload, {});
  live.submitted = loop_.clock().now();
  note_queued(live);
  // What is asynchronous was acknowledged before.
  const bool acknowledged = request.acknowledged || request.kind == InvocationKind::kAsynchronous;
  handle(slice_scheduling::RequestSubmitted{request.id, spec.id, acknowledged});
  return {};
}

void PipelineHost::cancel(InvocationId request) {
  if (has(request)) handle(slice_scheduling::RequestCancelled{request});
}

void PipelineHost::perform(const slice_scheduling::GiveJob& action) {
  const auto found = instances_.find(action.instance);
  if (found == instances_.end()) return;  // its end is on the way, and gives the job back
  const LiveInstance& instance = found->second;
  const Instant now = loop_.clock().now();
  std::vector<JobRequest> requests;
  for (const InvocationId id : action.requests) {
    Live& live = requests_.at(id);
    // A copy: it is needed once more if the instance ends under it.
    requests.push_back({id, live.payload});
    const bool is_first = !live.begun;
    note_given(live);
    live.begun = now;
    live.device = instance.instance->placement().slices.front();
    const bool waited = instance.ready && *instance.ready > live.submitted;
    live.start = waited ? instance.how : StartClass::kWarm;
    if (is_first && events_.on_begin) events_.on_begin(id);
  }
  jobs_[action.job] = {action.instance, action.requests};
  found->second.instance->give(action.job, std::move(requests), action.alone);
}

void PipelineHost::job_ended(InstanceId id, JobEnd end) {
  const auto job = jobs_.find(end.job);
  CHECK(job != jobs_.end(), "a job ends once");
  const std::vector<InvocationId> requests = std::move(job->second.requests);
  jobs_.erase(job);
  LiveInstance& live = instances_.at(id);
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
    Live& request = requests_.at(requests[i]);
    request.end = std::move(result);
    request.job = record;
  }
  if (const auto owner = functions_.find(live.function); owner != functions_.end()) {
    learn(owner->second, *live.package, end);
    const auto count = static_cast<int64_t>(std::max<size_t>(requests.size(), 1));
    owner->second.took.learn(end.execution / count);
  }
  handle(slice_scheduling::JobFinished{end.job, end.execution});
}

void PipelineHost::perform(const slice_scheduling::CompleteRequest& action) {
  const auto found = requests_.find(action.request);
  CHECK(found != requests_.end(), "every request is completed once");
  Live live = std::move(found->second);
  requests_.erase(found);
  RequestRecord record = record_of(action.request, live);
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
  const auto owner = functions_.find(live.function);
  if (action.error) {
    if (!live.begun) end.start = StartClass::kCold;  // none came up for it
    end.outcome = Outcome::kRejected;
    end.error = action.error;
    // An instance ended under it, or none came up: the client gets that sandbox's own words.
    if (owner != functions_.end() && !owner->second.last_end.payload.empty() &&
        owner->second.last_end.error == *action.error) {
      const InstanceEnd& last = owner->second.last_end;
      end.outcome = Outcome::kFunctionError;
      end.payload = last.payload;
      end.error_type = last.error_type;
      end.log_tail = last.log_tail;
    }
  }
  if (owner != functions_.end()) end.in_time = count(owner->second, end.outcome, record.took);
  record.state = name_of(end.outcome);
  if (end.error) record.error = end.error->message;
  if (record.error.empty()) record.error = end.error_type;
  traces_.keep(std::move(record));
  events_.on_end(std::move(end));
}

// Where its time went.

void PipelineHost::note_queued(Live& live) {
  live.is_given = false;
  live.mark = waits_.totals(live.function, loop_.clock().now());
}

void PipelineHost::note_given(Live& live) {
  if (std::exchange(live.is_given, true)) return;
  const auto totals = waits_.totals(live.function, loop_.clock().now());
  slice_scheduling::add_difference(live.mark, totals, live.waits);
}

RequestRecord PipelineHost::record_of(InvocationId id, const Live& live) const {
  const Instant now = loop_.clock().now();
  RequestRecord record;
  record.invocation = id;
  record.name = live.name;
  record.state = live.is_given ? "running" : "queued";
  record.took = now - live.submitted;
  record.start = live.start;
  record.waits = live.waits;
  record.job = live.job;
  if (live.is_given) {
    record.run = now - *live.begun;
  } else {
    slice_scheduling::add_difference(live.mark, waits_.totals(live.function, now), record.waits);
    const auto& functions = dispatcher_->world().functions;
    if (const auto state = functions.find(live.function); state != functions.end()) {
      record.waits_now = slice_scheduling::wait_of(dispatcher_->world(), state->second).reason;
    }
  }
  Duration waited{};
  for (const auto& [cause, each] : record.waits) waited += each;
  record.lost = std::max(Duration(0), record.took - record.run - waited);
  return record;
}

std::optional<RequestRecord> PipelineHost::explain(InvocationId request) const {
  const auto live = requests_.find(request);
  if (live == requests_.end()) return std::nullopt;
  return record_of(request, live->second);
}

Result<std::string> PipelineHost::trace(TenantId tenant, InvocationId request) const {
  const std::optional<RequestRecord> live = explain(request);
  const RequestRecord* record = live ? &*live : traces_.find(request);
  if (record == nullptr || record->name.tenant != tenant) {
    return Error{ErrorCode::kNotFound,
                 "no request of a pipeline with this id is remembered; the "
                 "last " +
                     std::to_string(RequestTraces::kMost) + " are"};
  }
  return json_of(*record, [&](FunctionId id) -> std::string {
    const auto owner = functions_.find(id);
    const bool is_theirs = owner != functions_.end() && owner->second.spec.name.tenant == tenant;
    return is_theirs ? owner->second.spec.name.name : "";
  });
}

}  // namespace lambent::worker
