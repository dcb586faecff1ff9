#include "decide/scheduling/place_victims.h"

#include <algorithm>

#include "decide/scheduling/eviction.h"

namespace lambent::scheduling {
namespace {

// Whether its function uses a GPU, and it does not.
bool is_cpu_variant(const Fleet& fleet, const Flow& flow, uint32_t device) {
  return fleet.memory_of(flow, device) != flow.device_memory;
}

const Foresight* foresight_of(const Fleet& fleet) {
  return fleet.foresight().learns() ? &fleet.foresight() : nullptr;
}

unsigned count_of(const Fleet& fleet, const std::vector<SandboxSlot>& slots, FunctionId function) {
  return static_cast<unsigned>(std::count_if(slots.begin(), slots.end(), [&](SandboxSlot slot) {
    return fleet.sandbox(slot).function == function;
  }));
}

// Beside those in `except`, which are to leave.
bool is_kept_beside(const Fleet& fleet, const Flow& flow, FunctionId function,
                    const std::vector<SandboxSlot>& except) {
  return flow.min_instances > 0 &&
         is_kept(fleet, flow, function, count_of(fleet, except, function));
}

void add_candidates_of_device(const Fleet& fleet, uint32_t device, const Flows& flows,
                              const std::vector<SandboxSlot>& except,
                              std::vector<EvictionCandidate>& candidates) {
  for (const auto [slot, function] : fleet.idle().on(device)) {
    if (std::find(except.begin(), except.end(), slot) != except.end()) continue;
    const Flow& flow = flows[function.value];
    candidates.push_back({slot, fleet.sandbox(slot).last_used, &flow,
                          is_cpu_variant(fleet, flow, device), function, foresight_of(fleet),
                          is_kept_beside(fleet, flow, function, except)});
  }
}

// Of a function's sandboxes both rules give up the least recently used one first, and its list has
// them in this order; of those used last at the same instant, any may come first.
void add_candidates_of_functions(const Fleet& fleet, const Flows& flows,
                                 const std::vector<SandboxSlot>& except,
                                 std::vector<EvictionCandidate>& candidates) {
  for (uint32_t function = 0; function < fleet.idle().functions(); ++function) {
    std::optional<Instant> least;
    for (SandboxSlot slot = fleet.idle().oldest_of(FunctionId{function}); slot != kNoSandbox;
         slot = fleet.sandbox(slot).newer) {
      if (std::find(except.begin(), except.end(), slot) != except.end()) continue;
      const Sandbox& sandbox = fleet.sandbox(slot);
      if (least && *least != sandbox.last_used) break;
      least = sandbox.last_used;
      const Flow& flow = flows[function];
      candidates.push_back({slot, sandbox.last_used, &flow,
                            is_cpu_variant(fleet, flow, sandbox.device), FunctionId{function},
                            foresight_of(fleet),
                            is_kept_beside(fleet, flow, FunctionId{function}, except)});
    }
  }
}

// Where a place is what is short, and no memory, each sandbox has one, however much it holds.
EvictionRule by_place(EvictionRule rule) {
  return rule == EvictionRule::kWorth ? EvictionRule::kCostAware : rule;
}

// A crowded device can only be helped by its own sandboxes.
void add_victims_on(const Fleet& fleet, uint32_t index, Bytes memory, const Flows& flows,
                    Instant now, std::vector<SandboxSlot>& victims) {
  const FleetOptions& options = fleet.options();
  const Device& device = fleet.devices()[index];
  Bytes committed = device.committed;
  unsigned on_device = device.sandboxes;
  const auto leaves = [&](SandboxSlot victim) {
    if (!fleet.sandbox(victim).is_on(index)) return;
    --on_device;
    committed -= fleet.sandbox(victim).memory;
  };
  for (const SandboxSlot victim : victims) leaves(victim);
  std::vector<EvictionCandidate> candidates;
  while (committed + memory > device.capacity() || on_device >= device.options.contexts) {
    candidates.clear();
    add_candidates_of_device(fleet, index, flows, victims, candidates);
    const bool by_memory = committed + memory > device.capacity();
    const EvictionRule rule = by_memory ? options.eviction : by_place(options.eviction);
    victims.push_back(choose_victim(rule, options.guesses, candidates, now));
    leaves(victims.back());
  }
}

}  // namespace

std::vector<SandboxSlot> victims_for(const Fleet& fleet, const Place& place, Bytes memory,
                                     const Flows& flows, Instant now) {
  const FleetOptions& options = fleet.options();
  std::vector<SandboxSlot> victims;
  // Where memory moves, which sandboxes leave is decided from event to event.
  if (!fleet.memory().moves_idle()) {
    add_victims_on(fleet, place.device, memory, flows, now, victims);
    for_each_device_in(place.beside, [&](uint32_t device) {
      add_victims_on(fleet, device, memory, flows, now, victims);
    });
  }
  std::vector<EvictionCandidate> candidates;
  while (fleet.device_table().sandboxes() >= options.most_sandboxes + victims.size()) {
    candidates.clear();
    add_candidates_of_functions(fleet, flows, victims, candidates);
    victims.push_back(choose_victim(by_place(options.eviction), options.guesses, candidates, now));
  }
  return victims;
}

bool is_kept(const Fleet& fleet, const Flow& flow, FunctionId function, unsigned gone) {
  if (flow.min_instances == 0) return false;
  unsigned idle = 0;
  for (SandboxSlot slot = fleet.idle().newest_of(function); slot != kNoSandbox;
       slot = fleet.sandbox(slot).older) {
    if (fleet.sandbox(slot).revision == flow.revision) ++idle;
  }
  return idle <= flow.min_instances + gone;
}

std::optional<SandboxSlot> crowded_out(const Fleet& fleet, uint32_t index, const Flows& flows,
                                       Instant now) {
  const Device& device = fleet.devices()[index];
  if (device.committed <= device.capacity()) return std::nullopt;
  std::vector<EvictionCandidate> candidates;
  add_candidates_of_device(fleet, index, flows, {}, candidates);
  if (candidates.empty()) return std::nullopt;
  const FleetOptions& options = fleet.options();
  return choose_victim(options.eviction, options.guesses, candidates, now);
}

}  // namespace lambent::scheduling
