#include "decide/slice_scheduling/fluid_faas.h"

#include <algorithm>

namespace lambent::slice_scheduling {

void FluidFaasPolicy::decide(const SliceWorld& world, Instant now,
                             std::vector<Decision>& decisions) {
  const Instant ahead = route(world, now, decisions);
  if (!decisions.empty()) return;
  change(world, now, decisions);
  if (ahead != kNever) decisions.push_back(AskAgain{ahead});
}

void FluidFaasPolicy::change(const SliceWorld& world, Instant now,
                             std::vector<Decision>& decisions) {
  finish_migrations(world, decisions);
  if (decisions.empty()) change_states(world, now, decisions);
  if (!decisions.empty()) return;
  const std::vector<Waiting> waiting = this->waiting(world);
  take_turns(world, waiting, decisions);
  if (!decisions.empty()) return;
  grow(world, now, waiting, decisions);
  if (waiting.empty()) migrate(world, decisions);
  // What that retired must not be retired again.
  if (std::any_of(decisions.begin(), decisions.end(),
                  [](const Decision& each) { return !std::holds_alternative<AskAgain>(each); })) {
    return;
  }
  release_cold(world, now, decisions);
}

Instant FluidFaasPolicy::route(const SliceWorld& world, Instant now,
                               std::vector<Decision>& decisions) const {
  std::vector<const Instance*> open;
  Instant ahead = kNever;
  for (const auto& [id, function] : world.functions) {
    if (function.queue.empty()) continue;
    open.clear();
    for (const InstanceId each : function.instances) {
      const Instance& instance = world.instances.at(each);
      if (instance.allocation_mode != AllocationMode::kExclusive || !instance.is_open()) continue;
      if (instance.has_place(now)) {
        open.push_back(&instance);
      } else {
        ahead = std::min(ahead, instance.ahead_at());
      }
    }
    std::sort(open.begin(), open.end(), [](const Instance* a, const Instance* b) {
      return a->latency() != b->latency() ? a->latency() < b->latency() : a->id < b->id;
    });
    size_t next = 0;
    for (const Instance* instance : open) {
      const size_t most = std::max(instance->most_jobs(), instance->jobs + 1);
      for (size_t jobs = instance->jobs; jobs < most; ++jobs) {
        if (next == function.queue.size()) break;
        decisions.push_back(Assign{{function.queue[next++].id}, instance->id});
      }
    }
  }
  return ahead;
}

std::vector<FluidFaasPolicy::Waiting> FluidFaasPolicy::waiting(const SliceWorld& world) const {
  std::vector<Waiting> waiting;
  for (const auto& [id, function] : world.functions) {
    if (function.queue.empty()) continue;
    const Instance* sharing = world.sharing_instance(function);
    Waiting each{.function = &function, .sharing = sharing};
    each.key = function.queue.front().deadline;
    // Those without an SLO come last, in the order of submission.
    if (each.key == kNever) each.key = Instant(Duration::max() / 2) + seconds(0);
    if (sharing != nullptr) {
      each.owed = owed_.contains(sharing->id);
      each.key -= sharing->latency();
      if (!sharing->on_slices) each.key -= sharing->placement.load;
    }
    waiting.push_back(each);
  }
  std::sort(waiting.begin(), waiting.end(), [](const Waiting& a, const Waiting& b) {
    if (a.owed != b.owed) return a.owed;
    if (a.key != b.key) return a.key < b.key;
    return a.function->queue.front().sequence < b.function->queue.front().sequence;
  });
  return waiting;
}

void FluidFaasPolicy::take_turns(const SliceWorld& world, const std::vector<Waiting>& waiting,
                                 std::vector<Decision>& decisions) {
  // What it came for may have been cancelled, or gone elsewhere.
  std::erase_if(owed_, [&](InstanceId id) {
    const Instance* instance = world.find(id);
    const FunctionState* function = instance ? world.find(instance->function) : nullptr;
    return function == nullptr || function->queue.empty();
  });
  std::set<DeviceId> taken;  // for those that are more urgent
  for (const auto& [function, sharing, owed, key] : waiting) {
    if (sharing == nullptr) continue;
    const DeviceId slice = sharing->placement.slices.front();
    if (taken.contains(slice)) continue;
    const Instance* occupant = world.occupant(world.slices.at(slice));
    if (sharing->is_open()) {
      taken.insert(slice);
      if (sharing->jobs > 0) continue;
      owed_.erase(sharing->id);
      decisions.push_back(Assign{{function->queue.front().id}, sharing->id});
    } else if (occupant == nullptr) {
      taken.insert(slice);
      owed_.insert(sharing->id);
      decisions.push_back(Load{sharing->id});
    } else if (occupant->is_open() && occupant->jobs == 0 && !owed_.contains(occupant->id)) {
      taken.insert(slice);
      decisions.push_back(Unload{occupant->id});
    } else {
      taken.insert(slice);  // on its way, or its occupant is
    }
  }
}

void FluidFaasPolicy::release_cold(const SliceWorld& world, Instant now,
                                   std::vector<Decision>& decisions) const {
  Instant next = kNever;
  for (const auto& [id, instance] : world.instances) {
    if (instance.retiring || instance.jobs > 0) continue;
    if (instance.load_state != LoadState::kLoaded && instance.load_state != LoadState::kUnloaded) {
      continue;
    }
    const FunctionState& function = world.functions.at(instance.function);
    if (!function.queue.empty()) continue;
    const Instant cold = std::max(instance.last_used, function.last_arrival) + options_.cold_after;
    if (cold <= now) {
      decisions.push_back(Retire{id});
    } else {
      next = std::min(next, cold);
    }
  }
  if (next != kNever) decisions.push_back(AskAgain{next});
}

}  // namespace lambent::slice_scheduling
