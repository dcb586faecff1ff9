// The part of FluidFaasPolicy that decides which instances there are: states, growth, shrinkage,
// migration.
#include <algorithm>

#include "decide/slice_scheduling/fluid_faas.h"

namespace lambent::slice_scheduling {
namespace {

// Of a function without an SLO: so many requests for each instance are too many.
constexpr size_t kLongQueue = 10;

bool is_coming(const Instance& instance) {
  return instance.load_state == LoadState::kStarting || instance.load_state == LoadState::kLoading;
}

bool any_starts(const SliceWorld& world, const FunctionState& function) {
  return std::any_of(function.instances.begin(), function.instances.end(), [&](InstanceId id) {
    const Instance& instance = world.instances.at(id);
    return !instance.retiring && instance.load_state == LoadState::kStarting;
  });
}

size_t staying(const SliceWorld& world, const FunctionState& function) {
  return static_cast<size_t>(
      std::count_if(function.instances.begin(), function.instances.end(),
                    [&](InstanceId id) { return !world.instances.at(id).retiring; }));
}

// Whether its oldest request cannot keep its deadline any more, even if it were begun now.
bool is_overloaded(const SliceWorld& world, const FunctionState& function, Instant now) {
  const QueuedRequest& oldest = function.queue.front();
  if (oldest.deadline == kNever) {
    return function.queue.size() > kLongQueue * std::max<size_t>(1, staying(world, function));
  }
  Duration quickest = Duration::max();
  for (const InstanceId id : function.instances) {
    const Instance& instance = world.instances.at(id);
    if (!instance.retiring) quickest = std::min(quickest, instance.latency());
  }
  return quickest == Duration::max() || now + quickest > oldest.deadline;
}

bool is_idle(const SliceWorld& world, const Instance& instance) {
  const FunctionState* function = world.find(instance.function);
  return instance.jobs == 0 && !is_coming(instance) && function != nullptr &&
         function->queue.empty();
}

double busy_share(const SliceWorld& world, const SliceState& slice) {
  double share = 0;
  for (const InstanceId id : slice.sharing) share += world.instances.at(id).utilisation;
  return share;
}

}  // namespace

void FluidFaasPolicy::grow(const SliceWorld& world, Instant now,
                           const std::vector<Waiting>& waiting, std::vector<Decision>& decisions) {
  for (const Waiting& each : waiting) {
    const FunctionState& function = *each.function;
    if (any_starts(world, function)) continue;
    if (function.start_again_at > now) {
      decisions.push_back(AskAgain{function.start_again_at});
      continue;
    }
    const bool has_any = staying(world, function) > 0;
    if (has_any && !is_overloaded(world, function, now)) {
      // Asked again when that will have changed.
      const Instant deadline = function.queue.front().deadline;
      if (deadline != kNever) decisions.push_back(AskAgain{std::max(deadline, now + seconds(1))});
      continue;
    }
    const bool decided = has_any && each.sharing != nullptr
                             ? start_more(world, now, function, each.sharing, decisions)
                             : start_first(world, now, function, decisions);
    if (decided) return;
  }
}

// A time-sharing instance: beside others while their slice has time left, else on a slice of its
// own, else beside others after all; and if no slice holds the whole function, a pipeline.
bool FluidFaasPolicy::start_first(const SliceWorld& world, Instant now,
                                  const FunctionState& function, std::vector<Decision>& decisions) {
  const FunctionId id = function.function->id;
  if (start_beside(world, function, options_.time_sharing_below, decisions)) return true;
  if (auto placement = placer_.place_alone(world, function)) {
    resized_ = now;
    decisions.push_back(Start{id, std::move(*placement), AllocationMode::kTimeSharing});
    return true;
  }
  if (start_beside(world, function, 1e9, decisions)) return true;
  if (auto placement = placer_.place(world, function)) {
    decisions.push_back(Start{id, std::move(*placement), AllocationMode::kExclusive});
    return true;
  }
  if (!placer_.fits_empty(world, function)) {
    const Error error = fits_nowhere(world, *function.function);
    for (const QueuedRequest& request : function.queue) {
      decisions.push_back(Refuse{request.id, error});
    }
    return true;
  }
  // A pipeline cannot share its slices: one that is not hot goes where others wait.
  for (const auto& [each, instance] : world.instances) {
    if (!instance.is_open() || !instance.is_pipeline() || !is_idle(world, instance)) continue;
    if (instance.utilisation >= options_.time_sharing_below) continue;
    if (now - instance.last_used < world.window) continue;
    decisions.push_back(Retire{each});
    return true;
  }
  decisions.push_back(AskAgain{now + world.window});
  return false;
}

// On the time-shared slice with the fewest instances that is busy for less than that share; who is
// on it leaves first. Whether anything was decided.
bool FluidFaasPolicy::start_beside(const SliceWorld& world, const FunctionState& function,
                                   double most_busy, std::vector<Decision>& decisions) {
  const SliceState* best = nullptr;
  std::optional<pipeline::Placement> placement;
  for (const auto& [id, slice] : world.slices) {
    if (slice.sharing.empty() || busy_share(world, slice) >= most_busy) continue;
    if (best != nullptr && slice.sharing.size() >= best->sharing.size()) continue;
    const Instance* occupant = world.occupant(slice);
    if (occupant != nullptr && (!occupant->is_open() || occupant->jobs > 0)) continue;
    if (occupant != nullptr && owed_.contains(occupant->id)) continue;
    auto fits = placer_.place_beside(world, function, slice);
    if (!fits) continue;
    best = &slice;
    placement = std::move(fits);
  }
  if (best == nullptr) return false;
  if (const Instance* occupant = world.occupant(*best)) {
    decisions.push_back(Unload{occupant->id});
  } else {
    decisions.push_back(
        Start{function.function->id, std::move(*placement), AllocationMode::kTimeSharing});
  }
  return true;
}

// Its SLO is missed: its time-sharing instance gets a slice of its own if it shares one now; if it
// has one, there is an exclusive instance more.
bool FluidFaasPolicy::start_more(const SliceWorld& world, Instant now,
                                 const FunctionState& function, const Instance* sharing,
                                 std::vector<Decision>& decisions) {
  const FunctionId id = function.function->id;
  const SliceState& slice = world.slices.at(sharing->placement.slices.front());
  if (slice.sharing.size() > 1 && sharing->jobs == 0) {
    if (auto placement = placer_.place_alone(world, function)) {
      resized_ = now;
      decisions.push_back(Retire{sharing->id});
      decisions.push_back(Start{id, std::move(*placement), AllocationMode::kTimeSharing});
      return true;
    }
  }
  auto placement = placer_.place(world, function);
  if (!placement) return false;
  decisions.push_back(Start{id, std::move(*placement), AllocationMode::kExclusive});
  return true;
}

void FluidFaasPolicy::migrate(const SliceWorld& world, std::vector<Decision>& decisions) {
  for (const auto& [id, instance] : world.instances) {
    if (!instance.is_open() || !instance.is_pipeline()) continue;
    const FunctionState& function = world.functions.at(instance.function);
    if (migrations_.contains(instance.function) || any_starts(world, function)) continue;
    if (function.start_again_at > Instant{}) continue;
    auto placement = placer_.place_alone(world, function);
    if (!placement) continue;
    migrations_[instance.function] = {id, placement->slices.front()};
    decisions.push_back(
        Start{instance.function, std::move(*placement), AllocationMode::kExclusive});
    return;
  }
}

void FluidFaasPolicy::finish_migrations(const SliceWorld& world, std::vector<Decision>& decisions) {
  for (auto each = migrations_.begin(); each != migrations_.end();) {
    const auto& [from, to] = each->second;
    const auto slice = world.slices.find(to);
    const Instance* fresh = slice == world.slices.end() || !slice->second.exclusive
                                ? nullptr
                                : world.find(*slice->second.exclusive);
    const Instance* old = world.find(from);
    const bool is_ours = fresh != nullptr && fresh->function == each->first && !fresh->retiring;
    if (is_ours && old != nullptr && !old->retiring && !fresh->is_open()) {
      ++each;  // the new one is on its way
      continue;
    }
    if (is_ours && old != nullptr && !old->retiring) decisions.push_back(Retire{from});
    each = migrations_.erase(each);
  }
}

// One function after the other, as two could want the same slice.
void FluidFaasPolicy::change_states(const SliceWorld& world, Instant now,
                                    std::vector<Decision>& decisions) {
  if (windows_seen_ == world.windows) return;
  for (auto each = world.functions.upper_bound(changed_); each != world.functions.end(); ++each) {
    changed_ = each->first;
    change_state(world, each->second, decisions);
    if (!decisions.empty()) return;
  }
  changed_ = FunctionId{};
  windows_seen_ = world.windows;
  shrink(world, now, decisions);
}

// One change for each function and window, so that what follows from it is seen first.
void FluidFaasPolicy::change_state(const SliceWorld& world, const FunctionState& function,
                                   std::vector<Decision>& decisions) {
  if (migrations_.contains(function.function->id)) return;
  const Instance* sharing = world.sharing_instance(function);
  if (sharing != nullptr && sharing->utilisation > options_.time_sharing_below) {
    const SliceState& slice = world.slices.at(sharing->placement.slices.front());
    if (slice.sharing.size() == 1 && sharing->is_open()) {
      decisions.push_back(ChangeAllocationMode{sharing->id, AllocationMode::kExclusive});
      return;
    }
    if (any_starts(world, function)) return;
    if (auto placement = placer_.place(world, function)) {
      decisions.push_back(
          Start{function.function->id, std::move(*placement), AllocationMode::kExclusive});
    }
    return;
  }
  // What is used least falls back: into time sharing, or away if there is another that shares.
  const Instance* least = nullptr;
  for (const InstanceId each : function.instances) {
    const Instance& instance = world.instances.at(each);
    if (!instance.is_open() || instance.allocation_mode != AllocationMode::kExclusive) continue;
    if (instance.utilisation >= options_.time_sharing_below) continue;
    if (instance.last_used == instance.ready && instance.jobs == 0 && instance.busy == Duration{} &&
        !function.queue.empty()) {
      continue;  // it has had no chance yet
    }
    if (least == nullptr || instance.utilisation < least->utilisation) least = &instance;
  }
  if (least == nullptr || !function.queue.empty()) return;
  if (!least->is_pipeline() && sharing == nullptr) {
    decisions.push_back(ChangeAllocationMode{least->id, AllocationMode::kTimeSharing});
  } else if (staying(world, function) > 1) {
    decisions.push_back(Retire{least->id});
  }
}

// The time-shared slice that is used least is given up if the others can take its instances, which
// come back there with their next request.
void FluidFaasPolicy::shrink(const SliceWorld& world, Instant now,
                             std::vector<Decision>& decisions) {
  if (now - resized_ < options_.resize_pause) return;
  double busy = 0;
  size_t count = 0;
  const SliceState* least = nullptr;
  for (const auto& [id, slice] : world.slices) {
    if (slice.sharing.empty()) continue;
    ++count;
    busy += busy_share(world, slice);
    if (least == nullptr || busy_share(world, slice) < busy_share(world, *least)) least = &slice;
  }
  if (count < 2 || busy / static_cast<double>(count) >= options_.shrink_sharing_below) return;
  for (const InstanceId id : least->sharing) {
    const Instance& instance = world.instances.at(id);
    if (instance.retiring || !is_idle(world, instance)) return;
    const FunctionState& function = world.functions.at(instance.function);
    const bool fits = std::any_of(world.slices.begin(), world.slices.end(), [&](const auto& each) {
      return &each.second != least && placer_.place_beside(world, function, each.second);
    });
    if (!fits) return;
  }
  resized_ = now;
  for (const InstanceId id : least->sharing) decisions.push_back(Retire{id});
}

}  // namespace lambent::slice_scheduling
