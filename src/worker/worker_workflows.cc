// The part of Worker that begins workflows and ends them; their calls come back as submissions of
// their own.
#include <utility>

#include "worker/worker.h"

namespace lambent::worker {

WorkflowHost::Events Worker::workflow_events() {
  WorkflowHost::Events events;
  events.submit = [this](InvocationRequest request, WorkflowHost::Done done) {
    submit(std::move(request), std::move(done));
  };
  events.forget = [this](InvocationId call) { forget(call); };
  events.find_function = [this](const FunctionName& name) { return functions_.find(name); };
  events.stopping = [this] { return draining_; };
  events.on_begin = [this](InvocationId id) { note_begun(live_.at(id).request); };
  events.on_end = [this](InvocationResult result) { finish(std::move(result)); };
  events.on_output = [this](FunctionId function, std::string_view text) {
    logs_.append(function, text);
  };
  return events;
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
