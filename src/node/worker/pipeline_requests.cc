#include "node/worker/pipeline_requests.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lambent::worker {

void PipelineRequests::add(InvocationRequest& request, const FunctionSpec& spec) {
  Live& live = live_[request.id];
  live.function = spec.id;
  live.name = spec.name;
  live.revision = spec.revision;
  live.within_run = request.within_run;
  live.payload = std::exchange(request.payload, {});
  live.submitted = clock_.now();
  note_queued(live);
}

PipelineRequests::Live PipelineRequests::take(InvocationId id) {
  const auto found = live_.find(id);
  CHECK(found != live_.end(), "every request is completed once");
  Live live = std::move(found->second);
  live_.erase(found);
  return live;
}

void PipelineRequests::note_queued(Live& live) {
  live.is_given = false;
  live.mark = waits_.totals(live.function, clock_.now());
}

void PipelineRequests::note_given(Live& live) {
  if (std::exchange(live.is_given, true)) return;
  const auto totals = waits_.totals(live.function, clock_.now());
  slice_scheduling::add_difference(live.mark, totals, live.waits);
}

RequestRecord PipelineRequests::record_of(InvocationId id, const Live& live) const {
  const Instant now = clock_.now();
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
    const auto& functions = dispatcher_.world().functions;
    if (const auto state = functions.find(live.function); state != functions.end()) {
      record.waits_now = slice_scheduling::wait_of(dispatcher_.world(), state->second).reason;
    }
  }
  Duration waited{};
  for (const auto& [cause, each] : record.waits) waited += each;
  record.lost = std::max(Duration(0), record.took - record.run - waited);
  return record;
}

std::optional<RequestRecord> PipelineRequests::explain(InvocationId id) const {
  const auto live = live_.find(id);
  if (live == live_.end()) return std::nullopt;
  return record_of(id, live->second);
}

Result<RequestRecord> PipelineRequests::record(TenantId tenant, InvocationId id) const {
  const std::optional<RequestRecord> live = explain(id);
  const RequestRecord* record = live ? &*live : traces_.find(id);
  if (record != nullptr && record->name.tenant == tenant) return *record;
  return Error{ErrorCode::kNotFound,
               "no request of a pipeline with this id is remembered; the last " +
                   std::to_string(RequestTraces::kMost) + " are"};
}

}  // namespace lambent::worker
