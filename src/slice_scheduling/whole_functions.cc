#include "slice_scheduling/whole_functions.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace lambent::slice_scheduling {

using Option = WholeFunctions::Option;

const std::vector<Option>& WholeFunctions::options_of(const SliceWorld& world,
                                                      const FunctionState& function) {
  Known& known = known_[function.function->id];
  if (known.version == function.version && known.slices_version == world.slices_version) {
    return known.options;
  }
  known = {function.version, world.slices_version, {}};
  std::set<std::string> seen;
  for (const auto& [id, state] : world.slices) {
    const SliceShape& shape = state.slice.shape;
    if (state.lost || !seen.insert(shape.name).second) continue;
    if (const auto placement = placer_(*function.function, {&state.slice, 1})) {
      known.options.push_back({shape.name, shape.multiprocessors, placement->latency,
                               function.function->profile.start + placement->load});
    }
  }
  std::ranges::sort(known.options, [](const Option& a, const Option& b) {
    return std::tuple(a.cost(), a.shape) < std::tuple(b.cost(), b.shape);
  });
  return known.options;
}

const Option* WholeFunctions::option_on(const SliceWorld& world, const FunctionState& function,
                                        const std::string& shape) {
  for (const Option& option : options_of(world, function)) {
    if (option.shape == shape) return &option;
  }
  return nullptr;
}

std::optional<pipeline::Placement> WholeFunctions::place(const SliceWorld& world,
                                                         const FunctionState& function,
                                                         const std::string& shape) const {
  std::map<std::pair<uint32_t, uint32_t>, size_t> free_on_gpu;
  for (const auto& [id, state] : world.slices) {
    if (state.is_free()) ++free_on_gpu[{state.slice.node, state.slice.gpu}];
  }
  const Slice* best = nullptr;
  const auto free_beside = [&](const Slice& slice) {
    return free_on_gpu.at({slice.node, slice.gpu});
  };
  for (const auto& [id, state] : world.slices) {
    if (!state.is_free() || state.slice.shape.name != shape) continue;
    if (!best || free_beside(state.slice) < free_beside(*best)) best = &state.slice;
  }
  if (!best) return std::nullopt;
  return placer_(*function.function, {best, 1});
}

double WholeFunctions::capacity_per_s(const SliceWorld& world, const FunctionState& function) {
  double sum = 0;
  for (const InstanceId id : function.instances) {
    const Instance& instance = world.instances.at(id);
    if (!instance.retiring) sum += 1 / std::max(1e-6, to_seconds(instance.latency()));
  }
  return sum;
}

double WholeFunctions::wait_s(const SliceWorld& world, const FunctionState& function) {
  if (function.queue.empty()) return 0;
  const double capacity = capacity_per_s(world, function);
  return capacity > 0 ? static_cast<double>(function.queue.size()) / capacity : kLong;
}

bool WholeFunctions::make_room(const SliceWorld& world, const FunctionState& function, Instant now,
                               std::vector<Decision>& decisions) {
  const double wait = wait_s(world, function);
  const Instance *idle = nullptr, *busy = nullptr;
  double least_wait = 0;
  Instant ask = kNever;
  for (const auto& [id, instance] : world.instances) {
    if (!option_on(world, function, shape_of(world, instance).name)) continue;
    // One slice at a time: it is not known yet whom that one will suffice.
    if (instance.retiring) return true;
    if (instance.function == function.function->id || instance.residence != Residence::kLoaded) {
      continue;
    }
    const FunctionState& other = world.functions.at(instance.function);
    if (instance.jobs == 0 && other.queue.empty()) {
      const Instant from = instance.last_used + options_.least_idle;
      if (options_.least_idle > options_.keep_alive) continue;
      if (from > now) {
        ask = std::min(ask, from);
      } else if (!idle || instance.last_used < idle->last_used) {
        idle = &instance;
      }
    } else if (other.instances.size() > 1) {
      const double other_wait = wait_s(world, other);
      const double mine = to_seconds(instance.latency());
      const bool may =
          wait == kLong || (options_.envy > 0 && wait > options_.envy * (other_wait + mine));
      if (may && (!busy || other_wait < least_wait)) {
        busy = &instance;
        least_wait = other_wait;
      }
    }
  }
  const Instance* victim = idle ? idle : busy;
  if (victim) decisions.push_back(Retire{victim->id});
  if (!victim && ask != kNever) decisions.push_back(AskAgain{ask});
  return victim != nullptr;
}

void WholeFunctions::retire_idle(const SliceWorld& world, Instant now,
                                 std::vector<Decision>& decisions) const {
  for (const auto& [id, instance] : world.instances) {
    if (!instance.is_open() || instance.jobs > 0) continue;
    if (!world.functions.at(instance.function).queue.empty()) continue;
    const Instant until = instance.last_used + options_.keep_alive;
    if (until <= now) {
      decisions.push_back(Retire{id});
    } else {
      decisions.push_back(AskAgain{until});
    }
  }
}

bool WholeFunctions::refuse_what_cannot_be(const SliceWorld& world, const FunctionState& function,
                                           std::vector<Decision>& decisions) {
  if (!options_of(world, function).empty()) return false;
  for (const QueuedRequest& request : function.queue) {
    decisions.push_back(Refuse{request.id, fits_nowhere(world, *function.function)});
  }
  return !function.queue.empty();
}

const SliceShape& WholeFunctions::shape_of(const SliceWorld& world, const Instance& instance) {
  return world.slices.at(instance.placement.slices.front()).slice.shape;
}

std::vector<const FunctionState*> WholeFunctions::by_deadline(const SliceWorld& world) {
  std::vector<const FunctionState*> waiting;
  for (const auto& [id, function] : world.functions) {
    if (!function.queue.empty()) waiting.push_back(&function);
  }
  std::ranges::sort(waiting, [](const FunctionState* a, const FunctionState* b) {
    const QueuedRequest &first = a->queue.front(), &second = b->queue.front();
    return std::tie(first.deadline, first.sequence) < std::tie(second.deadline, second.sequence);
  });
  return waiting;
}

}  // namespace lambent::slice_scheduling
