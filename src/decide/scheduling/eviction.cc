#include "decide/scheduling/eviction.h"

#include <algorithm>
#include <compare>

#include "core/base/check.h"
#include "decide/scheduling/hybrid.h"

namespace lambent::scheduling {
namespace {

// What giving up this sandbox is expected to cost, in seconds of cold start per second. A function
// that has been silent for longer than its usual gap is taken to come as rarely as that silence.
double expected_loss(EvictionRule rule, const EvictionGuesses& guesses,
                     const EvictionCandidate& candidate, Instant now) {
  const Flow& flow = *candidate.flow;
  const Duration silence = now - candidate.last_used;
  const Duration gap =
      std::max({flow.interarrival.mean_or(guesses.gap), silence, Duration(milliseconds(1))});
  const Duration cold_start = candidate.cpu_variant ? expected_host_cold_start(flow)
                                                    : flow.cold_start.mean_or(guesses.cold_start);
  const double loss = to_seconds(cold_start) / to_seconds(gap);
  const bool by_byte = rule == EvictionRule::kWorth && flow.device_memory > Bytes(0);
  return by_byte ? loss / static_cast<double>(flow.device_memory.count) : loss;
}

// The same, by how likely a call is soon.
double foreseen_loss(const EvictionGuesses& guesses, const EvictionCandidate& candidate,
                     Instant now) {
  if (candidate.foresight == nullptr || candidate.cpu_variant) {
    return expected_loss(EvictionRule::kForeseen, guesses, candidate, now);
  }
  const Flow& flow = *candidate.flow;
  const Duration ahead = candidate.foresight->horizon(now - candidate.last_used);
  const double chance = candidate.foresight->chance(
      candidate.function, flow, flow.interarrival.mean_or(guesses.gap), ahead, now);
  return chance / to_seconds(ahead) * to_seconds(flow.cold_start.mean_or(guesses.cold_start));
}

// The order of who is given up: by the flow first, then by how long it has not been used.
struct Rank {
  unsigned wanted = 0;  // 2: something waits for it; 1: is expected to
  bool kept = false;
  double loss = 0;
  Instant last_used{};
  uint32_t slot = 0;
  auto operator<=>(const Rank&) const = default;
};

Rank rank_of(EvictionRule rule, const EvictionGuesses& guesses, const EvictionCandidate& candidate,
             Instant now) {
  Rank rank{.kept = candidate.kept, .last_used = candidate.last_used, .slot = candidate.slot};
  const bool active = candidate.flow->is_active(now);
  if (rule == EvictionRule::kLeastRecentlyUsed) {
    rank.wanted = active ? 1 : 0;
    return rank;
  }
  const bool counts_grace = rule == EvictionRule::kCostAwareGrace;
  rank.wanted = candidate.flow->pending > 0 ? 2 : counts_grace && active ? 1 : 0;
  rank.loss = rule == EvictionRule::kForeseen ? foreseen_loss(guesses, candidate, now)
                                              : expected_loss(rule, guesses, candidate, now);
  return rank;
}

}  // namespace

std::optional<EvictionRule> eviction_rule_from(std::string_view name) {
  if (name == "lru") return EvictionRule::kLeastRecentlyUsed;
  if (name == "cost-aware") return EvictionRule::kCostAware;
  if (name == "foreseen") return EvictionRule::kForeseen;
  if (name == "cost-aware-grace") return EvictionRule::kCostAwareGrace;
  if (name == "worth") return EvictionRule::kWorth;
  return std::nullopt;
}

uint32_t choose_victim(EvictionRule rule, const EvictionGuesses& guesses,
                       std::span<const EvictionCandidate> candidates, Instant now) {
  CHECK(!candidates.empty(), "no sandbox to evict");
  Rank least = rank_of(rule, guesses, candidates.front(), now);
  for (const EvictionCandidate& candidate : candidates.subspan(1)) {
    const Rank rank = rank_of(rule, guesses, candidate, now);
    if (rank < least) least = rank;
  }
  return least.slot;
}

}  // namespace lambent::scheduling
