#include "scheduling/eviction.h"

#include <algorithm>

#include "base/check.h"

namespace lambent::scheduling {
namespace {

// What giving up this sandbox is expected to cost, in seconds of cold start per second. A function
// that has been silent for longer than its usual gap is taken to come as rarely as that silence.
double expected_loss(const EvictionCandidate& candidate, Instant now) {
  const Flow& flow = *candidate.flow;
  const Duration silence = now - candidate.last_used;
  const Duration gap =
      std::max({flow.interarrival.mean_or(seconds(60)), silence, Duration(milliseconds(1))});
  const Duration cold_start = flow.cold_start.mean_or(seconds(1));
  return to_seconds(cold_start) / to_seconds(gap);
}

bool costs_less(const EvictionCandidate& a, const EvictionCandidate& b, Instant now) {
  const bool a_awaited = a.flow->pending > 0;
  const bool b_awaited = b.flow->pending > 0;
  if (a_awaited != b_awaited) return b_awaited;
  const double a_loss = expected_loss(a, now);
  const double b_loss = expected_loss(b, now);
  if (a_loss != b_loss) return a_loss < b_loss;
  return a.last_used != b.last_used ? a.last_used < b.last_used : a.slot < b.slot;
}

bool used_less_recently(const EvictionCandidate& a, const EvictionCandidate& b, Instant now) {
  const bool a_active = a.flow->is_active(now);
  const bool b_active = b.flow->is_active(now);
  if (a_active != b_active) return b_active;
  return a.last_used != b.last_used ? a.last_used < b.last_used : a.slot < b.slot;
}

}  // namespace

uint32_t choose_victim(EvictionRule rule, std::span<const EvictionCandidate> candidates,
                       Instant now) {
  CHECK(!candidates.empty(), "no sandbox to evict");
  const auto victim = std::min_element(candidates.begin(), candidates.end(),
                                       [&](const EvictionCandidate& a, const EvictionCandidate& b) {
                                         if (rule == EvictionRule::kCostAware)
                                           return costs_less(a, b, now);
                                         return used_less_recently(a, b, now);
                                       });
  return victim->slot;
}

}  // namespace lambent::scheduling
