#include "decide/slice_scheduling/whole_functions.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "decide/slice_scheduling/batch_size.h"

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
    if (!state.stays() || !seen.insert(shape.name).second) continue;
    if (const auto placement = placer_(*function.function, {&state.slice, 1})) {
      const auto capacity = pipeline::capacity_of(*placement, function.function->slo);
      known.options.push_back({shape.name, shape.multiprocessors, placement->latency,
                               capacity.seconds_a_result,
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
                                                         const std::string& shape,
                                                         bool rested) const {
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
    if (rested && world.rests(id)) continue;
    if (!best || free_beside(state.slice) < free_beside(*best)) best = &state.slice;
  }
  if (!best) return std::nullopt;
  return placer_(*function.function, {best, 1});
}

std::optional<pipeline::Placement> WholeFunctions::place(const SliceWorld& world,
                                                         const FunctionState& function) {
  const Duration slo = function.function->slo;
  for (const bool rested : {true, false}) {
    for (const bool in_time : {true, false}) {
      for (const Option& option : options_of(world, function)) {
        if (in_time != (slo == Duration::zero() || option.latency <= slo)) continue;
        if (auto placement = place(world, function, option.shape, rested)) return placement;
      }
    }
  }
  return std::nullopt;
}

double WholeFunctions::capacity_per_s(const SliceWorld& world, const FunctionState& function) {
  double sum = 0;
  for (const InstanceId id : function.instances) {
    const Instance& instance = world.instances.at(id);
    if (!instance.retiring) sum += capacity_of(function, instance);
  }
  return sum;
}

void WholeFunctions::watch(const SliceWorld& world, Instant now) {
  const Duration passed = now - watched_;
  if (passed < world.window / 2) return;
  watched_ = now;
  const double weight = 1 - std::exp(-to_seconds(passed) / to_seconds(options_.memory));
  for (const auto& [id, function] : world.functions) {
    double& average = arrivals_per_s_[id];
    average += weight * (function.arrivals_per_s - average);
  }
}

double WholeFunctions::arrivals_per_s(FunctionId function) const {
  const auto found = arrivals_per_s_.find(function);
  return found == arrivals_per_s_.end() ? 0 : found->second;
}

double WholeFunctions::left_over(const SliceWorld& world, const FunctionState& function,
                                 Duration until_ready, Duration spare) const {
  const double capacity = capacity_per_s(world, function);
  const double rate = std::max(arrivals_per_s(function.function->id), function.arrivals_per_s);
  const double queued = static_cast<double>(function.queue.size());
  if (capacity <= 0) return queued;
  return queued + (rate - capacity) * to_seconds(until_ready) - capacity * to_seconds(spare);
}

double WholeFunctions::load_without(const SliceWorld& world, const FunctionState& function,
                                    double less) const {
  constexpr double kEndless = 1e9;
  const double capacity = capacity_per_s(world, function) - less;
  return capacity > 1e-9 ? arrivals_per_s(function.function->id) / capacity : kEndless;
}

bool WholeFunctions::make_room(const SliceWorld& world, const FunctionState& function, Instant now,
                               std::vector<Decision>& decisions) {
  const double mine = load_without(world, function, 0);
  const bool has_none = capacity_per_s(world, function) <= 0;
  const Instance *idle = nullptr, *busy = nullptr;
  double least = 0;
  Instant ask = kNever;
  for (const auto& [id, instance] : world.instances) {
    if (!option_on(world, function, shape_of(world, instance).name)) continue;
    // One slice at a time: it is not known yet whom that one will suffice.
    if (instance.retiring) return true;
    if (instance.function == function.function->id || instance.load_state != LoadState::kLoaded) {
      continue;
    }
    const FunctionState& other = world.functions.at(instance.function);
    const double theirs = load_without(world, other, capacity_of(other, instance));
    const bool is_idle = instance.jobs == 0 && other.queue.empty();
    const Instant from = instance.last_used + options_.least_idle;
    if (is_idle && options_.least_idle <= options_.keep_alive && (has_none || theirs < mine)) {
      if (from > now) {
        ask = std::min(ask, from);
      } else if (!idle || instance.last_used < idle->last_used) {
        idle = &instance;
      }
    }
    const bool envied = options_.envy > 0 && mine > 1 && mine > options_.envy * theirs;
    if ((has_none || envied) && other.instances.size() > 1 && (!busy || theirs < least)) {
      busy = &instance;
      least = theirs;
    }
  }
  const Instance* victim = idle ? idle : busy;
  if (victim) decisions.push_back(Retire{victim->id});
  if (!victim && ask != kNever) decisions.push_back(AskAgain{ask});
  return victim != nullptr;
}

void WholeFunctions::retire_idle(const SliceWorld& world, Instant now,
                                 std::vector<Decision>& decisions) const {
  Instant next = kNever;
  for (const auto& [id, instance] : world.instances) {
    if (!instance.is_open() || instance.jobs > 0) continue;
    if (!world.functions.at(instance.function).queue.empty()) continue;
    const Instant until = instance.last_used + options_.keep_alive;
    if (until <= now) {
      decisions.push_back(Retire{id});
    } else {
      next = std::min(next, until);
    }
  }
  if (next != kNever) decisions.push_back(AskAgain{next});
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

std::vector<const FunctionState*> WholeFunctions::by_need(const SliceWorld& world) const {
  std::vector<const FunctionState*> waiting = by_deadline(world);
  std::map<const FunctionState*, double> need;
  for (const FunctionState* function : waiting) {
    need[function] = load_without(world, *function, 0);
  }
  std::ranges::stable_sort(waiting, [&](const FunctionState* a, const FunctionState* b) {
    return need.at(a) > need.at(b);
  });
  return waiting;
}

}  // namespace lambent::slice_scheduling
