#include "decide/slice_scheduling/slo_policy.h"

#include <algorithm>

namespace lambent::slice_scheduling {

void SloPolicy::decide(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) {
  const auto decided = [&] {
    return std::any_of(decisions.begin(), decisions.end(), [](const Decision& each) {
      return !std::holds_alternative<AskAgain>(each);
    });
  };
  settle_claims(world, now, decisions);
  if (decided()) return;
  route(world, now, decisions);
  if (decided()) return;
  take_turns(world, now, decisions);
  if (decided()) return;
  scale(world, now, decisions);
  if (decided()) return;
  tidy(world, now, decisions);
  if (decided()) return;
  migrate(world, now, decisions);
}

// One without others on a shared slice has it to itself; what was not used for long goes; what
// shares and has slices of its own besides is not needed any more.
void SloPolicy::tidy(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) {
  // What it looks at changes with slices and time.
  const bool again = tidied_version_ != world.slices_version || now >= tidy_at_;
  if (!again) {
    if (tidy_at_ != kNever) decisions.push_back(AskAgain{tidy_at_});
    return;
  }
  Instant next = kNever;
  const Instant later = now + world.window;  // for who is at work
  for (const auto& [id, instance] : world.instances) {
    if (instance.retiring) continue;
    if (instance.jobs > 0) {
      next = std::min(next, later);
      continue;
    }
    if (instance.allocation_mode == AllocationMode::kTimeSharing) {
      const DeviceId slice = instance.placement.slices.front();
      if (world.slices.at(slice).sharing.size() == 1 && !is_claimed(slice)) {
        if (instance.is_open())
          decisions.push_back(ChangeAllocationMode{id, AllocationMode::kExclusive});
        if (instance.load_state == LoadState::kUnloaded) decisions.push_back(Load{id});
        continue;
      }
    }
    const FunctionState& function = world.functions.at(instance.function);
    const bool settled =
        instance.load_state == LoadState::kLoaded || instance.load_state == LoadState::kUnloaded;
    if (!settled || !function.queue.empty()) {
      next = std::min(next, later);
      continue;
    }
    if (instance.load_state == LoadState::kUnloaded) {
      const bool has_own = std::any_of(
          function.instances.begin(), function.instances.end(),
          [&](InstanceId other) { return other != id && world.instances.at(other).is_open(); });
      if (has_own) {
        decisions.push_back(Retire{id});
        continue;
      }
    }
    const Instant cold = instance.last_used + options_.cold_after;
    if (cold <= now) {
      decisions.push_back(Retire{id});
    } else {
      next = std::min(next, cold);
    }
  }
  if (decisions.empty() || std::holds_alternative<AskAgain>(decisions.back())) {
    tidied_version_ = world.slices_version;
    tidy_at_ = next;
  }
  if (next != kNever) decisions.push_back(AskAgain{next});
}

// From a pipeline to a slice that holds the whole function and is quicker, when none waits: the
// new instance first; the old one goes when it has done what it was given, which the new one does
// not overtake (may_begin).
void SloPolicy::migrate(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) {
  for (auto each = migrations_.begin(); each != migrations_.end();) {
    const auto& [from, to] = each->second;
    const auto slice = world.slices.find(to);
    const Instance* fresh = slice == world.slices.end() || !slice->second.exclusive
                                ? nullptr
                                : world.find(*slice->second.exclusive);
    const Instance* old = world.find(from);
    const bool goes_on = fresh != nullptr && fresh->function == each->first && !fresh->retiring &&
                         old != nullptr && (!old->retiring || old->jobs > 0);
    if (goes_on && fresh->is_open() && !old->retiring) {
      decisions.push_back(Retire{from});
      return;
    }
    each = goes_on ? std::next(each) : migrations_.erase(each);
  }
  if (!world.queued.empty() || !claims_.empty()) return;
  for (const auto& [id, instance] : world.instances) {
    if (!instance.is_open() || !instance.is_pipeline()) continue;
    const FunctionState& function = world.functions.at(instance.function);
    if (migrations_.contains(instance.function) || function.start_again_at > now) continue;
    auto placement = placer_.place_alone(world, function);
    if (!placement || placement->latency >= instance.placement.latency) continue;
    // It was placed for what is wanted, which the one slice may not give.
    const bool by_what_is_wanted = !instance.placement.replicas.empty();
    const auto capacity = pipeline::capacity_of(*placement, function.function->slo);
    if (by_what_is_wanted && capacity.seconds_a_result * wanted_per_s(function, now) > 1) continue;
    migrations_[instance.function] = {id, placement->slices.front()};
    decisions.push_back(
        Start{instance.function, std::move(*placement), AllocationMode::kExclusive});
    return;
  }
}

}  // namespace lambent::slice_scheduling
