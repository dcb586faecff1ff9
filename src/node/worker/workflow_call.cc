#include "node/worker/workflow_call.h"

#include <utility>

#include "decide/workflow/kernel_call.h"
#include "node/runtime_api/error_type.h"

namespace lambent::worker {
namespace {

// What a function says of its failure may be long; a chain of failures repeats it.
constexpr size_t kCauseLength = 800;

std::string cut(std::string message) {
  if (message.size() <= kCauseLength) return message;
  return message.substr(0, kCauseLength) + " ...";
}

// The sandbox or executor ended under an invocation, by no fault of what it answered.
bool is_of_place(const InvocationResult& result) {
  if (!result.error) return false;  // the handler's own words
  for (const char* type :
       {"Runtime.ExitError", "Sandbox.Failure", "Sandbox.Stopped", "Sandbox.MoveFailed"}) {
    if (result.error_type == type) return true;
  }
  return false;
}

workflow::Failure failure_of(const InvocationResult& result, FunctionKind kind) {
  workflow::Failure failure;
  failure.code = result.error ? result.error->code : ErrorCode::kUnknown;
  if (result.outcome == Outcome::kRejected) {
    const Error error = result.error.value_or(Error{ErrorCode::kInternal, "it was not run"});
    failure.type = kCallRejected;
    failure.message = cut(to_string(error));
    return failure;
  }
  failure.type = result.error_type;
  failure.message = cut(runtime_api::error_message_of(result.payload));
  // A workflow's message ends with the type of what failed in it.
  if (kind != FunctionKind::kWorkflow && !failure.type.empty()) {
    failure.message = failure.type + ": " + failure.message;
  }
  // A workflow has tried again already, where it could.
  failure.of_place = kind != FunctionKind::kWorkflow && is_of_place(result);
  failure.without_effects = kind == FunctionKind::kKernel;
  return failure;
}

}  // namespace

Result<std::string> payload_of(const workflow::Call& call, FunctionKind kind,
                               const workflow::Component& component) {
  if (kind == FunctionKind::kKernel) {
    return workflow::kernel_request(call.input, component.by_value);
  }
  return workflow::to_text(call.input);
}

workflow::CallEnd end_of(const Result<InvocationResult>& result, FunctionKind kind) {
  if (!result.ok()) {
    return workflow::Failure{.message = cut(to_string(result.error())),
                             .type = kCallRejected,
                             .code = result.error().code};
  }
  if (result->outcome != Outcome::kSucceeded) return failure_of(*result, kind);
  auto value = kind == FunctionKind::kKernel ? workflow::kernel_outputs(result->payload)
                                             : workflow::parse_value(result->payload);
  if (!value.ok()) {
    return workflow::Failure{.message = "its answer: " + value.error().message,
                             .type = kBadAnswer,
                             .code = value.error().code};
  }
  const Bytes size = workflow::memory_of(*value);
  return workflow::CallResult{std::move(value).value(), size};
}

}  // namespace lambent::worker
