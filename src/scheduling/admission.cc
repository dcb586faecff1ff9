#include "scheduling/admission.h"

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

Refusal refusal(const Flow& flow, std::string message) {
  return {std::move(message), std::clamp<Duration>(times(turn_estimate(flow), flow.pending) / 2,
                                                   seconds(1), kLongestRetryAfter)};
}

std::string of_function(const Flow& flow) {
  return "the function has " + std::to_string(flow.pending) + " invocations waiting, ";
}

std::string of_worker(size_t waiting, size_t of_these, const char* limit) {
  return "the worker has " + std::to_string(waiting) + " invocations waiting, " +
         std::to_string(of_these) + " of this function, which leaves no room for more of it (" +
         limit + ")";
}

std::string of_wait(const Flow& flow, Duration expected, Duration most) {
  char text[160];
  std::snprintf(text, sizeof(text),
                "which take about %.1f seconds at its share of this worker; one more would wait "
                "for longer than %.1f (queue_wait_s)",
                to_seconds(expected), to_seconds(most));
  return of_function(flow) + text;
}

}  // namespace

Duration turn_estimate(const Flow& flow) {
  if (flow.turns.samples() >= kTurnsToBelieve) return flow.turns.mean();
  // Of what the host's processors would take of its queue nothing is known here.
  if (flow.has_cpu_variant || flow.max_concurrency == 0) return {};
  return flow.execution.mean_or(Duration(0)) / static_cast<int64_t>(flow.max_concurrency);
}

std::optional<Refusal> refusal_of(const Flow& flow, bool asynchronous, const QueueTotals& waiting,
                                  const QueueLimits& limits) {
  if (flow.pending >= limits.per_function) {
    return refusal(flow, of_function(flow) + "the most allowed (queued_per_function)");
  }
  if (flow.pending >= left_of(limits.all, waiting.all)) {
    return refusal(flow, of_worker(waiting.all, flow.pending, "queued_invocations"));
  }
  if (asynchronous) return std::nullopt;
  if (flow.pending_synchronous >= left_of(limits.synchronous, waiting.synchronous)) {
    return refusal(flow,
                   of_worker(waiting.synchronous, flow.pending_synchronous, "queued_synchronous"));
  }
  if (flow.pending < kAlwaysAdmitted || limits.wait == QueueLimits::kForever) return std::nullopt;
  const Duration expected = times(turn_estimate(flow), flow.pending);
  if (expected <= limits.wait) return std::nullopt;
  return refusal(flow, of_wait(flow, expected, limits.wait));
}

}  // namespace lambent::scheduling
