#include "decide/scheduling/admission.h"

#include <algorithm>
#include <cstdio>

namespace lambent::scheduling {
namespace {

// Saturates: a queue of 10,000 runs of 90 minutes is longer than a Duration counts well.
Duration times(Duration one, size_t count) {
  constexpr Duration kMost = std::chrono::hours(24 * 365);
  if (one.count() <= 0 || count == 0) return Duration(0);
  return one > kMost / static_cast<int64_t>(count) ? kMost : one * static_cast<int64_t>(count);
}

// What `used` of `limit` leaves.
size_t left_of(size_t limit, size_t used) { return limit > used ? limit - used : 0; }

Refusal refusal(const FunctionQueue& queue, std::string_view error_type, std::string message) {
  return {std::move(message), retry_after(times(queue.turn, queue.waiting) / 2), error_type};
}

std::string of_function(const FunctionQueue& queue) {
  return "the function has " + std::to_string(queue.waiting) + " invocations waiting, ";
}

std::string of_worker(size_t waiting, size_t of_these, const char* limit) {
  return "the worker has " + std::to_string(waiting) + " invocations waiting, " +
         std::to_string(of_these) + " of this function, which leaves no room for more of it (" +
         limit + ")";
}

std::string of_payloads(const FunctionQueue& queue, Bytes all, Bytes most) {
  return "the payloads of the invocations that the worker has take " + to_string(all) + " of the " +
         to_string(most) + " that there are for them, " + to_string(queue.payloads) +
         " of it this function's, which leaves no room for this one";
}

std::string of_wait(const FunctionQueue& queue, Duration expected, Duration most) {
  char text[160];
  std::snprintf(text, sizeof(text),
                "which take about %.1f seconds at its share of this worker; one more would wait "
                "for longer than %.1f (queue_wait_s)",
                to_seconds(expected), to_seconds(most));
  return of_function(queue) + text;
}

}  // namespace

Duration turn_estimate(const Flow& flow) {
  if (flow.turns.samples() >= kTurnsToBelieve) return flow.turns.mean();
  // Of what the host's processors would take of its queue nothing is known here.
  if (flow.has_cpu_variant || flow.max_concurrency == 0) return {};
  // It goes on as it goes now.
  return flow.execution.mean_or(Duration(0)) /
         (std::max<int64_t>(flow.in_flight, 1) * flow.sandbox_concurrency);
}

FunctionQueue queue_of(const Flow& flow) {
  return {.waiting = flow.pending,
          .synchronous = flow.pending_synchronous,
          .payloads = {},
          .turn = turn_estimate(flow)};
}

Duration retry_after(Duration first) {
  return std::clamp<Duration>(first, seconds(1), kLongestRetryAfter);
}

std::optional<Refusal> refusal_of(const Newcomer& newcomer, const FunctionQueue& queue,
                                  const QueueTotals& waiting, const QueueLimits& limits) {
  if (queue.waiting >= limits.per_function) {
    return refusal(queue, "Overload.QueuedPerFunction",
                   of_function(queue) + "the most allowed (queued_per_function)");
  }
  if (queue.waiting >= left_of(limits.all, waiting.all)) {
    return refusal(queue, "Overload.QueuedInvocations",
                   of_worker(waiting.all, queue.waiting, "queued_invocations"));
  }
  const Bytes room = limits.payloads - waiting.payloads;
  if (newcomer.payload > room || queue.payloads > room) {
    return refusal(queue, "Overload.Payloads",
                   of_payloads(queue, waiting.payloads, limits.payloads));
  }
  if (newcomer.asynchronous) return std::nullopt;
  if (!newcomer.within_run &&
      queue.synchronous >= left_of(limits.synchronous, waiting.synchronous)) {
    return refusal(queue, "Overload.QueuedSynchronous",
                   of_worker(waiting.synchronous, queue.synchronous, "queued_synchronous"));
  }
  if (queue.waiting < kAlwaysAdmitted || limits.wait == QueueLimits::kForever) return std::nullopt;
  const Duration expected = times(queue.turn, queue.waiting);
  if (expected <= limits.wait) return std::nullopt;
  return refusal(queue, "Overload.QueueWait", of_wait(queue, expected, limits.wait));
}

}  // namespace lambent::scheduling
