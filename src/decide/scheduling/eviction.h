// Which idle sandbox to give up when a new one needs its place. Pure; used by Fleet.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/time.h"
#include "decide/scheduling/flow.h"
#include "decide/scheduling/foresight.h"

namespace lambent::scheduling {

enum class EvictionRule {
  kLeastRecentlyUsed,  // among inactive flows first, then among active ones
  // The one whose loss is expected to cost least: cold start time of its function times how often
  // the function is called, with a function that has work waiting last of all.
  kCostAware,
  // The same, where how often it is called is how likely that is soon, by the gaps between its
  // calls (Foresight).
  kForeseen,
  // As kCostAware, with a function in its grace period (Flow::is_active) after all that are not.
  kCostAwareGrace,
  // As kCostAware, for each byte of device memory that it frees; and memory that moves makes room
  // in that order too (memory_victims.h). For many models on few devices.
  kWorth,
};

// "lru", "cost-aware", "foreseen", "cost-aware-grace" or "worth"; nullopt: none of these.
std::optional<EvictionRule> eviction_rule_from(std::string_view name);

// What kCostAware takes a function for of which nothing is known yet.
struct EvictionGuesses {
  Duration gap = seconds(60);  // between two of its calls
  Duration cold_start = seconds(1);
};

struct EvictionCandidate {
  uint32_t slot = 0;
  Instant last_used{};
  const Flow* flow = nullptr;  // never null
  bool cpu_variant = false;    // it runs on the host although its function uses a GPU
  // For kForeseen: which function it is, and who foresees its calls (null: nothing does).
  FunctionId function{};
  const Foresight* foresight = nullptr;
  bool kept = false;  // it is one of min_instances
};

// The slot to evict; `candidates` is not empty. Of those that nothing waits for, one that is kept
// goes last. Scans: it is asked once per cold start in a full
// pool, which costs milliseconds at the least.
uint32_t choose_victim(EvictionRule rule, const EvictionGuesses& guesses,
                       std::span<const EvictionCandidate> candidates, Instant now);

}  // namespace lambent::scheduling
