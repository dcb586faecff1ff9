#include "node/worker/cancellation.h"

#include <string>
#include <utility>

#include "core/domain/sandbox_concurrency.h"

namespace lambent::worker {
namespace {

constexpr std::string_view kQueued = "queued";
constexpr std::string_view kRunning = "running";
constexpr std::string_view kWaiting = "waiting";  // to be tried again

}  // namespace

Result<CancelledInvocation> Cancellation::cancel(TenantId tenant, InvocationId id) {
  LiveInvocation* live = uses_.live.find(id);
  const bool waits_for_retry = uses_.follow_ups.find(tenant, id) != nullptr;
  const bool is_live = live != nullptr && live->request.function.tenant == tenant;
  if (!is_live && !waits_for_retry) return not_live(tenant, id);
  if (uses_.drain.draining()) {
    return Error{ErrorCode::kUnavailable,
                 "the worker is stopping: what waits is kept for the next one; cancel it there"};
  }
  if (!is_live) {
    uses_.follow_ups.cancel(tenant, id);
    return CancelledInvocation{std::string(kWaiting), true};
  }
  if (live->cancelled) {
    const auto explained = uses_.dispatcher.explain(id, uses_.loop.clock().now());
    return CancelledInvocation{std::string(explained ? name_of(explained->state) : kRunning),
                               false};
  }
  live->cancelled = true;
  if (waits_before_its_queue(id)) {
    uses_.completions.reject(id, cancelled_error());
    return CancelledInvocation{std::string(kQueued), true};
  }
  const uint64_t waited = uses_.workflows.waiting();
  if (uses_.workflows.cancel(id, cancelled_error())) {
    const bool ended = uses_.live.find(id) == nullptr;
    const bool was_waiting = uses_.workflows.waiting() < waited;
    return CancelledInvocation{std::string(was_waiting ? kQueued : kRunning), ended};
  }
  if (!uses_.pipelines.has(id)) return cancel_dispatched(*live);
  uses_.pipelines.cancel(id);
  live = uses_.live.find(id);
  if (live == nullptr) return CancelledInvocation{std::string(kQueued), true};
  live->cancelled = false;
  return Error{ErrorCode::kFailedPrecondition,
               "this request is at work in the stages of its pipeline, which work on others beside "
               "it; it ends by itself"};
}

void Cancellation::end_if_it_waits(InvocationId id) {
  LiveInvocation* live = uses_.live.find(id);
  if (live == nullptr || live->cancelled) return;
  live->too_old = true;
  if (waits_before_its_queue(id)) {
    return uses_.completions.reject(id, cancelled_error());
  }
  if (uses_.workflows.cancel(id, cancelled_error(), true)) return;
  if (uses_.pipelines.has(id)) {
    uses_.pipelines.cancel(id);
  } else {
    const auto explained = uses_.dispatcher.explain(id, uses_.loop.clock().now());
    const bool queued = explained && explained->state == dispatch::InvocationState::kQueued;
    if (queued) uses_.driver.handle(dispatch::InvocationCancelled{id});
  }
  live = uses_.live.find(id);
  if (live != nullptr) live->too_old = false;
}

// For objects, or for files.
bool Cancellation::waits_before_its_queue(InvocationId id) const {
  return uses_.completions.mounts().waiting(id) ||
         (uses_.objects != nullptr && uses_.objects->waiting(id));
}

Error Cancellation::not_live(TenantId tenant, InvocationId id) const {
  const EndedInvocation* ended = uses_.recent.find(tenant, id);
  if (ended == nullptr) {
    return {ErrorCode::kNotFound,
            "no invocation with this id waits or runs here; 'lambent invocations' lists those that "
            "do, and the last that ended"};
  }
  return {ErrorCode::kFailedPrecondition,
          "this invocation of '" + ended->function +
              "' has ended already: " + std::string(name_of(ended->outcome))};
}

Result<CancelledInvocation> Cancellation::cancel_dispatched(LiveInvocation& live) {
  const InvocationId id = live.request.id;
  const auto explained = uses_.dispatcher.explain(id, uses_.loop.clock().now());
  if (!explained) {
    live.cancelled = false;
    return Error{ErrorCode::kUnavailable,
                 "this invocation is on its way from one place to another; try again"};
  }
  std::string was(name_of(explained->state));
  if (explained->state == dispatch::InvocationState::kQueued) {
    uses_.driver.handle(dispatch::InvocationCancelled{id});
  } else if (explained->state == dispatch::InvocationState::kRunning) {
    if (const auto ending = end_run(live); !ending.ok()) {
      live.cancelled = false;
      return ending.error();
    }
  }
  return CancelledInvocation{std::move(was), uses_.live.find(id) == nullptr};
}

// Its own sandbox ends with it. Where others are in it too, only it leaves.
Result<void> Cancellation::end_run(LiveInvocation& live) {
  const FunctionSpec* spec = uses_.functions.find(live.function);
  if (spec == nullptr || spec->kind == FunctionKind::kKernel) {
    return Error{ErrorCode::kFailedPrecondition,
                 "its kernels run on the GPU beside others of its executor, and nothing takes them "
                 "off it; it ends within its function's timeout"};
  }
  if (sandbox_concurrency(*spec) > 1) {
    uses_.backends.of(live.sandbox).abandon(live.sandbox, live.request.id);
    uses_.driver.answer_cancelled(live);
    return {};
  }
  uses_.backends.of(live.sandbox)
      .stop(live.sandbox, cancelled_error(), std::string(kCancelledErrorType));
  return {};
}

}  // namespace lambent::worker
