// The part of Worker that ties invocations to objects: what they need, and what they make.
#include <algorithm>

#include "core/base/sealed_memory.h"
#include "node/runtime_api/error_type.h"
#include "node/worker/worker.h"

namespace lambent::worker {
namespace {

// A chain of failures names the last links and the cause; longer ones are cut.
constexpr size_t kCauseLength = 800;
// How long what needs the room of objects waits for them, and how often is looked.
constexpr Duration kLongestDeferred = seconds(5);
constexpr Duration kDeferredPeriod = milliseconds(2);

std::string cut(const std::string& message) {
  if (message.size() <= kCauseLength) return message;
  return "... " + message.substr(message.size() - kCauseLength);
}

// Why what an invocation was to make will not be, in words for those who asked for it.
Error cause_of(const FunctionName& function, const InvocationResult& result) {
  Error cause = result.error.value_or(
      Error{ErrorCode::kUnknown, runtime_api::error_message_of(result.payload)});
  const std::string type = result.error_type.empty() ? "" : result.error_type + ": ";
  cause.message = "function '" + function.name + "' failed: " + type + cut(cause.message);
  return cause;
}

}  // namespace

Result<void> Worker::check_objects(const InvocationRequest& request) const {
  if (request.needs.empty() && request.outputs == 0) return {};
  if (objects_ == nullptr) {
    return Error{ErrorCode::kUnimplemented, "this worker keeps no objects"};
  }
  if (request.outputs > limits::kOutputs) {
    return Error{ErrorCode::kInvalidArgument,
                 "an invocation makes at most " + std::to_string(limits::kOutputs) + " objects"};
  }
  const FunctionSpec* spec = functions_.find(request.function);
  if (request.outputs > 1 && spec != nullptr && spec->kind == FunctionKind::kPipeline) {
    return Error{ErrorCode::kInvalidArgument, "a pipeline makes one object: what it answers"};
  }
  for (const ObjectId object : request.needs) {
    if (auto wanted = objects_->want(request.function.tenant, object); !wanted.ok()) {
      return wanted.error().with_context("needs " + to_string(object));
    }
    const auto known = objects_->status(request.function.tenant, object);
    if (!known.ok()) return known.error().with_context("needs " + to_string(object));
    if (known->cause) return known->cause->with_context("needs " + to_string(object));
  }
  return {};
}

// It is queued now, or when all that it needs is there.
void Worker::begin_objects(const Live& live) {
  const InvocationId id = live.request.id;
  const TenantId tenant = live.request.function.tenant;
  auto begun = Result<void>();
  for (uint32_t i = 0; i < live.request.outputs && begun.ok(); ++i) {
    begun = objects_->expect(tenant, {id, i});
  }
  if (begun.ok()) begun = waits_->begin(id, tenant, live.request.needs);
  if (!begun.ok()) reject(id, begun.error());
}

void Worker::finish_objects(const Live& live, const InvocationResult& result) {
  const TenantId tenant = live.request.function.tenant;
  if (live.reads_objects) executors_.need_objects(tenant, live.request.needs, false);
  waits_->end(result.id);
  const auto fail_outputs = [&](const Error& cause) {
    for (uint32_t i = 0; i < live.request.outputs; ++i) {
      objects_->fail(tenant, {result.id, i}, cause);
    }
  };
  if (live.request.outputs == 0) return;
  const FunctionName& function = live.request.function;
  if (result.outcome != Outcome::kSucceeded) return fail_outputs(cause_of(function, result));
  // What the function answered is its first object, unless that is there already.
  const auto first = objects_->status(tenant, {result.id, 0});
  if (first.ok() && first->state == objects::ObjectState::kExpected) {
    auto memory = sealed_memory(result.payload);
    auto stored = memory.ok() ? objects_->store(tenant, {result.id, 0},
                                                raw_tensor(Bytes(result.payload.size())),
                                                std::move(*memory), live.request.time_to_live)
                              : Result<void>(memory.error());
    if (!stored.ok()) {
      objects_->fail(tenant, {result.id, 0},
                     stored.error().with_context("what function '" + function.name + "' made"));
    }
  }
  fail_outputs({ErrorCode::kOutOfRange,
                "function '" + function.name + "' made fewer objects than were asked for"});
}

void Worker::look_at_objects() {
  if (!executors_.minds_objects()) return;
  std::vector<ExecutorHost::DeviceClaim> claims;
  for (const scheduling::Device& device : dispatcher_->fleet().devices()) {
    if (device.options.id == scheduling::kHostDevice) continue;
    const bool moves = dispatcher_->fleet().memory().moves_idle();
    claims.push_back({.device = device.options.id,
                      .memory = device.options.memory,
                      .claimed = moves ? device.resident + device.promised
                                       : std::max(device.committed, device.occupied)});
  }
  executors_.look_at_objects(claims, [this](FunctionId function) {
    const scheduling::Flow* flow = flow_of(function);
    return flow != nullptr && flow->pending > 0;
  });
}

// What dispatch has promised lies empty once objects have made way, which takes their executor a
// moment. One that hangs keeps nobody for longer than this.
bool Worker::waits_for_objects(DeviceId device, const dispatch::Action& action) {
  if (!executors_.evicts_objects(device)) return false;
  const SandboxId sandbox = std::holds_alternative<dispatch::StartSandbox>(action)
                                ? std::get<dispatch::StartSandbox>(action).sandbox
                                : std::get<dispatch::MoveMemoryIn>(action).sandbox;
  deferred_.push_back({sandbox, device, action, loop_.clock().now() + kLongestDeferred});
  look_at_deferred_soon();
  return true;
}

void Worker::look_at_deferred_soon() {
  if (std::exchange(deferred_timed_, true)) return;
  deferred_timer_ = loop_.call_after(kDeferredPeriod, [this] { perform_deferred(); });
}

// One by one, for one may lead to another's being stopped.
void Worker::perform_deferred() {
  deferred_timed_ = false;
  const Instant now = loop_.clock().now();
  const auto is_due = [&](const Deferred& each) {
    return now >= each.by || !executors_.evicts_objects(each.device);
  };
  for (auto due = std::ranges::find_if(deferred_, is_due); due != deferred_.end();
       due = std::ranges::find_if(deferred_, is_due)) {
    const dispatch::Action action = std::move(due->action);
    deferred_.erase(due);
    if (const auto* start = std::get_if<dispatch::StartSandbox>(&action)) start_deferred(*start);
    if (const auto* in = std::get_if<dispatch::MoveMemoryIn>(&action)) move_memory_in(in->sandbox);
  }
  if (!deferred_.empty()) look_at_deferred_soon();
}

// Dispatch has it wait again for a sandbox of the function as it is, if that is another meanwhile.
void Worker::start_deferred(const dispatch::StartSandbox& action) {
  const FunctionSpec* spec = functions_.find(action.function);
  if (spec == nullptr || spec->revision == action.revision) return start_sandbox(action);
  handle(dispatch::SandboxExited{
      action.sandbox, {ErrorCode::kAborted, "the function was changed"}, kPlatformFailure});
}

std::optional<dispatch::Action> Worker::take_deferred(SandboxId sandbox) {
  const auto found = std::ranges::find(deferred_, sandbox, &Deferred::sandbox);
  if (found == deferred_.end()) return std::nullopt;
  dispatch::Action action = std::move(found->action);
  deferred_.erase(found);
  return action;
}

}  // namespace lambent::worker
