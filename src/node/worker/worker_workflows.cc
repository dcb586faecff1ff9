// The part of Worker that begins workflows and ends them; their calls come back as submissions of
// their own.
#include <utility>

#include "node/worker/worker.h"

namespace lambent::worker {

WorkflowHost::Events Worker::workflow_events() {
  WorkflowHost::Events events;
  events.submit = [this](InvocationRequest request, WorkflowHost::Done done) {
    submit(std::move(request), std::move(done));
  };
  events.forget = [this](InvocationId call) { forget(call); };
  events.find_function = [this](const FunctionName& name) { return functions_.find(name); };
  events.stopping = [this] { return draining_; };
  events.has_room = [this](const FunctionName& function, Bytes payload) {
    return has_room_for_call(function, payload);
  };
  events.on_begin = [this](InvocationId id) {
    Live& live = live_.at(id);
    note_begun(live.request);
    // It is among the values of its run from now on.
    count_payload(live.function, {}, std::exchange(live.payload, {}));
    workflows_.room_made();
  };
  events.on_end = [this](InvocationResult result) { finish(std::move(result)); };
  events.on_output = [this](FunctionId function, std::string_view text) {
    logs_.append(function, text);
  };
  return events;
}

// It is judged like what is asynchronous. Workflows that wait for a place do not count, for places
// come free when such calls are done; and one that is called needs no place.
bool Worker::has_room_for_call(const FunctionName& name, Bytes payload) {
  const FunctionSpec* spec = functions_.find(name);
  if (spec == nullptr) return true;  // whoever submits it hears of that
  scheduling::FunctionQueue queue;
  if (spec->kind != FunctionKind::kWorkflow) queue = queue_of(*spec);
  return !scheduling::refusal_of(
      {.asynchronous = true, .payload = payload}, queue,
      {.all = dispatcher_->queued() + pipelines_.queued(), .payloads = payloads_},
      {.per_function = dispatcher_->options().queued_per_function,
       .all = dispatcher_->options().queued_invocations,
       .payloads = options_.most_payloads});
}

void Worker::begin_workflow(Live& live, const FunctionSpec& spec) {
  live.revision = spec.revision;
  workflows_.start(live.request, spec);
}

Result<std::string> Worker::trace(TenantId tenant, InvocationId invocation) const {
  auto of_pipeline = pipelines_.trace(tenant, invocation);
  if (of_pipeline.ok()) return of_pipeline;
  const auto record = workflows_.trace(tenant, invocation);
  if (record.ok()) return json_of(*record);
  return Error{ErrorCode::kNotFound, record.error().message + "; " + of_pipeline.error().message};
}

}  // namespace lambent::worker
