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
  events.on_begin = [this](InvocationId id) {
    const InvocationRequest& request = live_.at(id).request;
    if (request.kind != InvocationKind::kAsynchronous) return;
    catalog_.begin_async(request.function.tenant, id, [](Result<void>) {});
  };
  events.on_end = [this](WorkflowEnd end) { workflow_ended(std::move(end)); };
  events.on_output = [this](FunctionId function, std::string_view text) {
    logs_.append(function, text);
  };
  return events;
}

void Worker::begin_workflow(Live& live, const FunctionSpec& spec) {
  live.revision = spec.revision;
  workflows_.start(live.request, spec);
}

void Worker::workflow_ended(WorkflowEnd end) {
  const auto found = live_.find(end.invocation);
  CHECK(found != live_.end(), "a workflow ends once, and before it is forgotten");
  dispatch::CompleteInvocation completion;
  completion.invocation = end.invocation;
  completion.outcome = end.outcome;
  completion.error = std::move(end.error);
  completion.error_type = end.error_type;
  completion.start = end.start;
  completion.phases.run = end.execution;
  if (end.outcome != Outcome::kRejected) {
    HandlerAnswer answer;
    answer.invocation = end.invocation;
    answer.succeeded = end.outcome == Outcome::kSucceeded;
    answer.payload = std::move(end.payload);
    answer.error_type = std::move(end.error_type);
    answer.log_tail = std::move(end.log_tail);
    found->second.answer = std::move(answer);
  }
  complete(completion);
}

Result<std::string> Worker::trace(TenantId tenant, InvocationId invocation) const {
  auto of_pipeline = pipelines_.trace(tenant, invocation);
  if (of_pipeline.ok()) return of_pipeline;
  const auto record = workflows_.trace(tenant, invocation);
  if (record.ok()) return json_of(*record);
  return Error{ErrorCode::kNotFound, record.error().message + "; " + of_pipeline.error().message};
}

}  // namespace lambent::worker
