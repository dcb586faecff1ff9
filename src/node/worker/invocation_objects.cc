#include "node/worker/invocation_objects.h"

#include <utility>

#include "core/base/sealed_memory.h"
#include "core/domain/limits.h"
#include "node/runtime_api/error_type.h"

namespace lambent::worker {
namespace {

// A chain of failures names the last links and the cause; longer ones are cut.
constexpr size_t kCauseLength = 800;

std::string cut(const std::string& message) {
  if (message.size() <= kCauseLength) return message;
  return "... " + message.substr(message.size() - kCauseLength);
}

// Why the objects of an invocation will not be made, in words for those who wait for them.
Error cause_of(const FunctionName& function, const InvocationResult& result) {
  Error cause = result.error.value_or(
      Error{ErrorCode::kUnknown, runtime_api::error_message_of(result.payload)});
  const std::string type = result.error_type.empty() ? "" : result.error_type + ": ";
  cause.message = "function '" + function.name + "' failed: " + type + cut(cause.message);
  return cause;
}

}  // namespace

Result<void> InvocationObjects::check(const InvocationRequest& request) const {
  if (request.outputs > limits::kOutputs) {
    return Error{ErrorCode::kInvalidArgument,
                 "an invocation makes at most " + std::to_string(limits::kOutputs) + " objects"};
  }
  const FunctionSpec* spec = functions_.find(request.function);
  if (request.outputs > 1 && spec != nullptr && spec->kind == FunctionKind::kPipeline) {
    return Error{ErrorCode::kInvalidArgument, "a pipeline makes one object: what it answers"};
  }
  for (const ObjectId object : request.needs) {
    if (auto wanted = store_.want(request.function.tenant, object); !wanted.ok()) {
      return wanted.error().with_context("needs " + to_string(object));
    }
    const auto known = store_.status(request.function.tenant, object);
    if (!known.ok()) return known.error().with_context("needs " + to_string(object));
    if (known->cause) return known->cause->with_context("needs " + to_string(object));
  }
  return {};
}

Result<void> InvocationObjects::begin(const LiveInvocation& live) {
  const InvocationId id = live.request.id;
  const TenantId tenant = live.request.function.tenant;
  for (uint32_t i = 0; i < live.request.outputs; ++i) {
    RETURN_IF_ERROR(store_.expect(tenant, {id, i}));
  }
  return waits_.begin(id, tenant, live.request.needs);
}

void InvocationObjects::end(const LiveInvocation& live, const InvocationResult& result) {
  const FunctionName& function = live.request.function;
  if (live.reads_objects) executors_.objects().need(function.tenant, live.request.needs, false);
  waits_.end(result.id);
  if (live.request.outputs == 0) return;
  if (result.outcome != Outcome::kSucceeded) {
    return fail_outputs(live, result.id, cause_of(function, result));
  }
  // What the function answered is its first object, unless that is there already.
  const auto first = store_.status(function.tenant, {result.id, 0});
  if (first.ok() && first->state == objects::ObjectState::kExpected) store_answer(live, result);
  fail_outputs(live, result.id,
               {ErrorCode::kOutOfRange,
                "function '" + function.name + "' made fewer objects than were asked for"});
}

void InvocationObjects::store_answer(const LiveInvocation& live, const InvocationResult& result) {
  const FunctionName& function = live.request.function;
  auto memory = sealed_memory(result.payload);
  const auto stored = memory.ok() ? store_.store(function.tenant, {result.id, 0},
                                                 raw_tensor(Bytes(result.payload.size())),
                                                 std::move(*memory), live.request.time_to_live)
                                  : Result<void>(memory.error());
  if (stored.ok()) return;
  store_.fail(function.tenant, {result.id, 0},
              stored.error().with_context("what function '" + function.name + "' made"));
}

// Those that are there already stay.
void InvocationObjects::fail_outputs(const LiveInvocation& live, InvocationId id,
                                     const Error& cause) {
  for (uint32_t i = 0; i < live.request.outputs; ++i) {
    store_.fail(live.request.function.tenant, {id, i}, cause);
  }
}

}  // namespace lambent::worker
