#include "node/worker/completions.h"

#include <utility>

#include "core/domain/slice.h"
#include "core/domain/version.h"
#include "node/runtime_api/error_type.h"

namespace lambent::worker {

void Completions::note_begun(LiveInvocation& live, std::function<void()> done) {
  const InvocationRequest& request = live.request;
  if (request.kind != InvocationKind::kAsynchronous || live.attempt_noted) {
    if (done) done();
    return;
  }
  live.attempt_noted = true;
  uses_.catalog.begin_async(request.function.tenant, request.id,
                            [done = std::move(done)](const Result<void>&) {
                              if (done) done();
                            });
}

void Completions::reject(InvocationId id, Error error) {
  InvocationResult result;
  result.id = id;
  result.outcome = Outcome::kRejected;
  result.error = std::move(error);
  complete(std::move(result));
}

void Completions::complete(InvocationResult result) {
  LiveInvocation live = uses_.live.take(result.id);
  complete(std::move(live), std::move(result));
}

// What it waited for before it had a queue counts as waiting, and is told if it was the most of it.
void Completions::add_wait_for_mounts(LiveInvocation& live, InvocationResult& result) {
  if (const auto waits = uses_.mounts.waited(live.request.id)) live.waited_for_mounts = *waits;
  uses_.mounts.end(live.request.id);
  if (live.waited_for_mounts == Duration(0)) return;
  if (live.waited_for_mounts > result.phases.queue) result.wait_reason = kFilesComing;
  result.phases.queue += live.waited_for_mounts;
}

void Completions::complete(LiveInvocation live, InvocationResult result) {
  add_wait_for_mounts(live, result);
  result.revision = live.revision;
  result.version = version_of(live.request.function);
  if (result.outcome == Outcome::kFunctionError && result.payload.empty()) {
    const std::string message = result.error ? result.error->message : "the function failed";
    result.payload =
        runtime_api::error_json(result.error_type, to_string(result.id) + " " + message);
  }
  // Queues drop one as if its client were gone.
  if (live.cancelled && result.error && result.error->code == ErrorCode::kCancelled) {
    result.error = cancelled_error();
    result.error_type = kCancelledErrorType;
  }
  if (live.too_old && result.error && result.error->code == ErrorCode::kCancelled) {
    result.error = too_old_error();
    result.error_type = kEventTooOldErrorType;
  }
  std::optional<asynchronous::FollowUp> follow_up;
  if (live.request.kind == InvocationKind::kAsynchronous) {
    follow_up = uses_.follow_ups.decide(live, result);
  }
  if (live.is_whole_pipeline) {
    result.in_time =
        uses_.pipelines.ended_whole(live.function, result.outcome, result.phases.total());
  }
  // Neither the tenant's own cancelling nor a client that left says anything of the function.
  const bool is_left = result.error && result.error->code == ErrorCode::kCancelled && !live.too_old;
  if (live.slo_ms > 0 && !is_left) {
    result.in_time = result.outcome == Outcome::kSucceeded &&
                     result.phases.total() <= std::chrono::milliseconds(live.slo_ms);
  }
  uses_.statistics.note(live.function);
  if (uses_.objects != nullptr) uses_.objects->end(live, result);
  count(live.request.function, result);
  log_completion(live, result);
  if (uses_.observe) uses_.observe(live.request, result);
  if (!live.idempotency_key.empty()) {
    uses_.idempotency.finish(live.idempotency_key, result, uses_.loop.clock().now());
  }
  if (follow_up) uses_.follow_ups.perform(live, result, *follow_up);
  // Nearly always there is one, which need not copy the payload.
  for (size_t i = 0; i + 1 < live.waiters.size(); ++i) live.waiters[i](result);
  if (!live.waiters.empty()) live.waiters.back()(std::move(result));
  uses_.workflows.room_made();
  if (uses_.drain.draining()) uses_.drain.check();
}

void Completions::count(const FunctionName& function, const InvocationResult& result) {
  uses_.metrics.completed(function, result);
  if (result.in_time) uses_.metrics.slo(function, *result.in_time);
  uses_.recent.ended(function, result, uses_.loop.clock().wall_now());
}

// Once for every invocation, so the fields are made only if the log takes them.
void Completions::log_completion(const LiveInvocation& live, const InvocationResult& result) {
  if (!uses_.log.wants(LogLevel::kDebug)) return;
  uses_.log.debug("invocation_completed",
                  {{"invocation", to_string(result.id)},
                   {"tenant", int64_t{live.request.function.tenant.value}},
                   {"function", live.request.function.name},
                   {"outcome", std::string(name_of(result.outcome))},
                   {"error_type", result.error_type},
                   {"start", std::string(name_of(result.start))},
                   {"device", result.device ? place_names(*result.device, result.beside) : ""},
                   {"queue_ms", to_milliseconds(result.phases.queue)},
                   {"wait_reason", result.wait_reason},
                   {"memory_ms", to_milliseconds(result.phases.memory)},
                   {"runs", int64_t{result.runs}},
                   {"run_ms", to_milliseconds(result.phases.run)}});
}

}  // namespace lambent::worker
