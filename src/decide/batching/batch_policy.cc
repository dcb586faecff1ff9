#include "decide/batching/batch_policy.h"

#include <algorithm>

namespace lambent::batching {

BatchPolicy::BatchPolicy(BatchLimits limits)
    : limits_(limits),
      size_(limits.slo == Duration::zero() ? std::max<uint64_t>(limits.most_elements, 1) : 1) {}

BatchDecision BatchPolicy::decide(std::span<const Waiting> waiting, Instant now) const {
  if (waiting.empty()) return {};
  BatchDecision decision;
  uint64_t elements = 0;
  for (const Waiting& each : waiting) {
    if (decision.requests > 0 && elements + each.elements > size_) break;
    elements += each.elements;
    ++decision.requests;
  }
  const bool is_full = elements >= size_ || decision.requests < waiting.size();
  if (is_full || limits_.most_wait == Duration::zero()) return decision;
  Instant latest = waiting.front().since + limits_.most_wait;
  // It has to run, too, before it is late.
  if (limits_.slo > Duration::zero()) {
    latest = std::min(latest, waiting.front().since + limits_.slo - last_run_);
  }
  if (now >= latest) return decision;
  return {.requests = 0, .again = latest};
}

void BatchPolicy::ran(uint64_t elements, Duration run) {
  if (limits_.slo == Duration::zero()) return;
  if (elements <= size_) last_run_ = run;
  const Duration most = limits_.slo / 2;
  if (run > most) {
    // One request cannot be made smaller.
    if (elements > 1) size_ = std::max<uint64_t>(1, std::min(size_, elements) / 2);
    return;
  }
  const bool was_full = elements >= size_;
  if (!was_full || size_ >= limits_.most_elements) return;
  // Larger by a quarter: a run takes at most as much longer as it is larger.
  const uint64_t larger = std::min(limits_.most_elements, size_ + std::max<uint64_t>(1, size_ / 4));
  const Duration more = run * static_cast<int64_t>(larger - size_) / static_cast<int64_t>(size_);
  if (run + more <= most) size_ = larger;
}

}  // namespace lambent::batching
