#include "decide/scheduling/memory_victims.h"

#include <algorithm>
#include <compare>
#include <vector>

#include "core/base/fetch_lines.h"
#include "decide/scheduling/place_victims.h"

namespace lambent::scheduling {
namespace {

// How soon the flow is expected on the device.
enum class Wanted { kInactive, kThrottled, kActive, kNext };

Wanted wanted(const View& view, const Policy& policy, FunctionId function, Instant now) {
  switch (policy.status(view, function, now).state) {
    case FlowState::kInactive:
      return Wanted::kInactive;
    case FlowState::kThrottled:
      return Wanted::kThrottled;
    case FlowState::kActive:
      break;
  }
  return view.flow(function).pending > 0 ? Wanted::kNext : Wanted::kActive;
}

// The order of who goes, least first.
struct Rank {
  bool next = false;
  bool kept = false;  // one of min_instances
  Relief relief = Relief::kMoveOut;
  Wanted wanted = Wanted::kInactive;
  double loss = 0;
  Instant last_used{};
  SandboxSlot slot = kNoSandbox;
  auto operator<=>(const Rank&) const = default;
};

bool by_worth(const View& view) { return view.fleet.options().eviction == EvictionRule::kWorth; }

// What giving up a byte of its memory is expected to cost, a second, by EvictionRule::kWorth:
// a move back takes as long for each byte of any sandbox, so that only how often it is wanted
// tells them apart; a start takes what it takes, however much room it made. A function that has
// been silent for longer than its usual gap is taken to come as rarely as that silence. Memory of
// several devices takes the links of all of them and makes room on one.
double expected_loss(const View& view, const Sandbox& sandbox, const Flow& flow, Relief relief,
                     Instant now) {
  if (!by_worth(view)) return 0;
  const EvictionGuesses& guesses = view.fleet.options().guesses;
  const Duration gap = std::max(
      {flow.interarrival.mean_or(guesses.gap), now - sandbox.last_used, Duration(milliseconds(1))});
  if (relief != Relief::kEvict) return sandbox.devices() / to_seconds(gap);
  const double start = to_seconds(flow.cold_start.mean_or(guesses.cold_start));
  return start / to_seconds(gap) / static_cast<double>(sandbox.counts.on_device.count);
}

// The idle sandboxes of a device were mostly not used lately: on their way into the caches before
// the first is looked at, they are waited for once.
const std::vector<IdleSandbox>& fetched_idle_on(const View& view, uint32_t device) {
  const std::vector<IdleSandbox>& idle = view.fleet.idle().on(device);
  for (const auto [slot, function] : idle) {
    fetch_lines(view.fleet.sandbox(slot), 2 * kCacheLine);
    fetch_lines(view.flow(function), 3 * kCacheLine);
  }
  return idle;
}

bool is_moving(const Sandbox& sandbox) {
  return sandbox.memory_state == MemoryState::kMovingIn ||
         sandbox.memory_state == MemoryState::kMovingOut;
}

}  // namespace

std::optional<MemoryVictim> memory_victim(const View& view, const Policy& policy, uint32_t device,
                                          Instant now) {
  std::optional<Rank> least;
  for (const auto [slot, function] : fetched_idle_on(view, device)) {
    const Sandbox& sandbox = view.fleet.sandbox(slot);
    if (is_moving(sandbox) || sandbox.counts.on_device == Bytes(0)) continue;
    Rank rank{.relief = Relief::kEvict,
              .wanted = wanted(view, policy, function, now),
              .last_used = sandbox.last_used,
              .slot = slot};
    if (view.fleet.memory().may_move_out(slot, false)) {
      rank.relief = Relief::kMoveOut;
    } else if (rank.wanted == Wanted::kInactive && view.fleet.memory().may_move_out(slot, true)) {
      rank.relief = Relief::kMoveContextOut;
    }
    rank.next = rank.wanted == Wanted::kNext;
    rank.kept = is_kept(view.fleet, view.flow(function), function);
    // Who is called often rests between calls for longer than its grace now and then.
    if (by_worth(view)) rank.wanted = Wanted::kInactive;
    rank.loss = expected_loss(view, sandbox, view.flow(function), rank.relief, now);
    if (!least || rank < *least) least = rank;
  }
  if (!least) return std::nullopt;
  return MemoryVictim{least->slot, least->relief};
}

std::vector<SandboxSlot> unwanted_memory(const View& view, const Policy& policy, uint32_t device,
                                         FunctionId spared, Bytes needed, Instant now) {
  std::vector<Rank> ranks;
  for (const auto [slot, function] : view.fleet.idle().on(device)) {
    const Sandbox& sandbox = view.fleet.sandbox(slot);
    if (function == spared || !view.fleet.memory().may_move_out(slot, false)) continue;
    const Flow& flow = view.flow(function);
    if (is_kept(view.fleet, flow, function)) continue;
    const Rank rank{.wanted = wanted(view, policy, function, now),
                    .loss = expected_loss(view, sandbox, flow, Relief::kMoveOut, now),
                    .last_used = sandbox.last_used,
                    .slot = slot};
    if (rank.wanted <= Wanted::kThrottled) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  std::vector<SandboxSlot> unwanted;
  Bytes room;
  for (const Rank& rank : ranks) {
    if (room >= needed) break;
    const Sandbox& sandbox = view.fleet.sandbox(rank.slot);
    unwanted.push_back(rank.slot);
    room += sandbox.counts.on_device - sandbox.left;
  }
  if (room < needed) unwanted.clear();
  return unwanted;
}

std::optional<SandboxSlot> early_leaver(const View& view, const Policy& policy, uint32_t device,
                                        Instant now) {
  std::optional<Rank> least;
  for (const auto [slot, function] : view.fleet.idle().on(device)) {
    const Sandbox& sandbox = view.fleet.sandbox(slot);
    if (sandbox.memory_state == MemoryState::kMovingOut) return std::nullopt;
    // What was fetched ahead is to be used.
    if (sandbox.prefetched || !view.fleet.memory().may_move_out(slot, false)) continue;
    if (is_kept(view.fleet, view.flow(function), function)) continue;
    const Rank rank{.wanted = wanted(view, policy, function, now),
                    .last_used = sandbox.last_used,
                    .slot = slot};
    if (rank.wanted <= Wanted::kThrottled && (!least || rank < *least)) least = rank;
  }
  return least ? std::optional(least->slot) : std::nullopt;
}

std::optional<MemoryVictim> context_victim(const View& view, uint32_t device, Instant now) {
  std::optional<Rank> least;
  std::vector<EvictionCandidate> candidates;
  for (const auto [slot, function] : fetched_idle_on(view, device)) {
    const Sandbox& sandbox = view.fleet.sandbox(slot);
    if (!sandbox.counts.wants_context) continue;
    const Flow& flow = view.flow(function);
    candidates.push_back({.slot = slot,
                          .last_used = sandbox.last_used,
                          .flow = &flow,
                          .kept = is_kept(view.fleet, flow, function)});
    if (flow.is_active(now) || !view.fleet.memory().may_move_out(slot, true)) continue;
    const Rank rank{.last_used = sandbox.last_used, .slot = slot};
    if (!least || rank < *least) least = rank;
  }
  if (least) return MemoryVictim{least->slot, Relief::kMoveContextOut};
  if (candidates.empty()) return std::nullopt;
  const SandboxSlot evicted =
      choose_victim(view.fleet.options().eviction, view.fleet.options().guesses, candidates, now);
  return MemoryVictim{evicted, Relief::kEvict};
}

}  // namespace lambent::scheduling
