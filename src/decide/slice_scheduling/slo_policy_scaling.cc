// The part of SloPolicy that decides which instances there are: more where requests wait longer
// than their SLOs allow, on slices that are free, or that others need less.
#include <algorithm>
#include <cmath>

#include "decide/slice_scheduling/batch_size.h"
#include "decide/slice_scheduling/slo_policy.h"

namespace lambent::slice_scheduling {
namespace {

constexpr double kWaitsForever = 1e9;
// A claim that cannot be settled by then is given up; what it needs may have changed.
constexpr Duration kLongestClaim = seconds(30);
constexpr Duration kLeastStay = seconds(1);
// A slice that others share is another's for so long after its last request.
constexpr Duration kActive = seconds(10);
// A function under no more pressure than this without an instance will hardly miss it.
constexpr double kSpared = 0.5;
constexpr double kHardlyBusy = 0.3;
// Requests a second that count as none.
constexpr double kLeastRate = 1e-3;

bool is_idle(const SliceWorld& world, const Instance& instance) {
  return instance.jobs == 0 && world.functions.at(instance.function).queue.empty();
}

double start_seconds(const FunctionState& function) {
  return std::max(0.5, to_seconds(function.function->profile.start));
}

Duration start_time(const SliceWorld& world, const Instance& instance) {
  return instance.placement.load + world.functions.at(instance.function).function->profile.start;
}

// How long its queue takes with so much capacity.
double seconds_to_serve(const FunctionState& function, double capacity_per_s) {
  return static_cast<double>(function.queue.size()) / std::max(1e-6, capacity_per_s);
}

bool share_a_slice(const pipeline::Placement& one, const pipeline::Placement& other) {
  return std::any_of(one.slices.begin(), one.slices.end(), [&](DeviceId slice) {
    return std::find(other.slices.begin(), other.slices.end(), slice) != other.slices.end();
  });
}

}  // namespace

// How much of its slice it can count on.
double SloPolicy::share_of(const SliceWorld& world, const Instance& instance, Instant now) const {
  if (instance.allocation_mode == AllocationMode::kExclusive) return 1;
  size_t active = 1;
  for (const InstanceId id : world.slices.at(instance.placement.slices.front()).sharing) {
    const Instance& other = world.instances.at(id);
    if (id == instance.id || other.retiring) continue;
    const FunctionState& function = world.functions.at(other.function);
    if (!function.queue.empty() || now - other.last_used < kActive) ++active;
  }
  return 1 / static_cast<double>(active);
}

double SloPolicy::pressure_with(const Demand& demand, double capacity_per_s, Instant now) const {
  const FunctionState& function = *demand.function;
  const auto queued = static_cast<double>(function.queue.size());
  const auto rates = rates_.find(function.function->id);
  const double arrivals_per_s = rates == rates_.end() ? 0 : rates->second.now.per_s(now);
  if (capacity_per_s <= 0) {
    return queued > 0 || arrivals_per_s > kLeastRate ? kWaitsForever : 0;
  }
  const double wait = queued / capacity_per_s / std::max(1e-6, to_seconds(demand.allowed));
  const double busy = arrivals_per_s / capacity_per_s / options_.most_busy;
  return std::max(wait, busy);
}

SloPolicy::Demand SloPolicy::demand_of(const SliceWorld& world, const FunctionState& function,
                                       Instant now) const {
  Demand demand{.function = &function};
  Duration coming_back{};  // of one that has to be loaded first
  bool any_here = false;
  for (const InstanceId id : function.instances) {
    const Instance& instance = world.instances.at(id);
    if (instance.retiring) continue;
    ++demand.staying;
    demand.capacity_per_s += capacity_of(function, instance) * share_of(world, instance, now);
    if (demand.latency == Duration{} || instance.latency() < demand.latency) {
      demand.latency = instance.latency();
    }
    if (instance.on_slices) any_here = true;
    if (!instance.on_slices) coming_back = instance.placement.load;
  }
  for (const Claim& claim : claims_) {
    if (claim.function != function.function->id) continue;
    ++demand.staying;
    demand.capacity_per_s += pipeline::capacity_of(claim.placement, function.function->slo).per_s();
    if (demand.latency == Duration{}) demand.latency = claim.placement.latency;
  }
  const Duration slo = function.function->slo;
  demand.allowed = slo > Duration{}
                       ? std::max(slo - demand.latency, slo / 4)
                       : from_seconds(to_seconds(demand.latency) * options_.waits_without_slo);
  demand.allowed = std::max(demand.allowed, Duration(milliseconds(1)));
  demand.pressure = pressure_with(demand, demand.capacity_per_s, now);
  if (!any_here && demand.staying > 0 && !function.queue.empty()) {
    // It has no slice now: its request waits for a turn.
    demand.pressure =
        std::max(demand.pressure, to_seconds(coming_back * 2) / to_seconds(demand.allowed) + 1);
  }
  return demand;
}

std::vector<Slice> SloPolicy::unclaimed(const SliceWorld& world) const {
  std::vector<Slice> free;
  for (const auto& [id, state] : world.slices) {
    if (state.is_free() && !is_claimed(id)) free.push_back(state.slice);
  }
  return free;
}

void SloPolicy::add_claim(Claim claim) {
  for (const DeviceId id : claim.placement.slices) claimed_.insert(id);
  claims_.push_back(std::move(claim));
}

void SloPolicy::arrived(const FunctionState& function, Instant now) {
  Rates& rates = rates_[function.function->id];
  rates.now.add(1, now);
  rates.usual.add(1, now);
  rates.peak_per_s = std::max(peak_per_s(function.function->id, now), rates.now.per_s(now));
  rates.peak_at = now;
}

double SloPolicy::peak_per_s(FunctionId function, Instant now) const {
  constexpr Duration kMemory = seconds(50);
  const auto found = rates_.find(function);
  if (found == rates_.end()) return 0;
  const Rates& rates = found->second;
  return rates.peak_per_s * std::exp(-to_seconds(now - rates.peak_at) / to_seconds(kMemory));
}

void SloPolicy::forget_gone(const SliceWorld& world) {
  if (windows_seen_ == world.windows) return;
  windows_seen_ = world.windows;
  const auto is_gone = [&](const auto& each) { return !world.functions.contains(each.first); };
  std::erase_if(rates_, is_gone);
  std::erase_if(jobs_given_, is_gone);
  std::erase_if(jobs_not_measured_, is_gone);
  std::erase_if(no_free_, is_gone);
  std::erase_if(no_donor_, is_gone);
}

void SloPolicy::scale(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) {
  forget_gone(world);
  bool any_queued = false;
  for (const auto& [id, function] : world.functions) any_queued |= !function.queue.empty();
  if (!any_queued) return;
  std::vector<Demand> demands;
  for (const auto& [id, function] : world.functions) {
    demands.push_back(demand_of(world, function, now));
  }
  std::stable_sort(demands.begin(), demands.end(),
                   [](const Demand& a, const Demand& b) { return a.pressure > b.pressure; });
  for (const Demand& demand : demands) {
    const FunctionState& function = *demand.function;
    if (demand.pressure <= 1) break;
    if (function.queue.empty()) continue;
    if (function.start_again_at > now) {
      decisions.push_back(AskAgain{function.start_again_at});
      continue;
    }
    if (start_on_free(world, demand, decisions)) return;
    if (demand.staying == 0 && !placer_.fits_empty(world, function)) {
      const Error error = fits_nowhere(world, *function.function);
      for (const QueuedRequest& request : function.queue) {
        decisions.push_back(Refuse{request.id, error});
      }
      return;
    }
    if (demand.staying == 0 && claim_beside(world, demand, now, decisions)) return;
    if (claim_from_others(world, demands, demand, now, decisions)) return;
    if (demand.staying == 0) decisions.push_back(AskAgain{now + world.window / 4});
  }
}

double SloPolicy::wanted_per_s(const FunctionState& function, Instant now) const {
  const auto rates = rates_.find(function.function->id);
  const double usual_per_s = rates == rates_.end() ? 0 : rates->second.usual.per_s(now);
  return usual_per_s / options_.most_busy +
         static_cast<double>(function.queue.size()) / (2 * start_seconds(function));
}

bool SloPolicy::start_on_free(const SliceWorld& world, const Demand& demand,
                              std::vector<Decision>& decisions) {
  const FunctionState& function = *demand.function;
  FailedSearch& failed_search = no_free_[function.function->id];
  // Claims only take slices away.
  if (failed_search.slices_version == world.slices_version &&
      failed_search.function_version == function.version) {
    return false;
  }
  auto placement =
      worth_.choose(world, function, unclaimed(world), wanted_per_s(function, world.now));
  if (!placement) {
    failed_search = {world.slices_version, function.version};
    return false;
  }
  decisions.push_back(
      Start{function.function->id, std::move(*placement), AllocationMode::kExclusive});
  return true;
}

// Beside an instance that is idle, the longest; or, when the oldest request has waited for longer
// than it may, beside one whose turn is over.
bool SloPolicy::claim_beside(const SliceWorld& world, const Demand& demand, Instant now,
                             std::vector<Decision>& decisions) {
  const FunctionState& function = *demand.function;
  const bool late = now - function.queue.front().submitted > demand.allowed;
  const SliceState* best = nullptr;
  Instant best_used = kNever;
  for (const auto& [id, slice] : world.slices) {
    if (slice.lost || slice.is_free() || is_claimed(id)) continue;
    const Instance* holder = slice.exclusive ? world.find(*slice.exclusive) : world.occupant(slice);
    Instant used{};
    if (holder != nullptr) {
      if (!holder->is_open() || holder->is_pipeline()) continue;
      const FunctionState& other = world.functions.at(holder->function);
      if (slice.exclusive && world.sharing_instance(other) != nullptr) continue;
      const bool idle = is_idle(world, *holder);
      const Duration turn =
          from_seconds(to_seconds(holder->placement.load) * 2 * options_.turn_moves);
      if (!idle && (!late || now - holder->loaded < turn)) continue;
      used = idle ? holder->last_used : now + (holder->loaded - Instant{});
    }
    if (best != nullptr && used >= best_used) continue;
    if (!placer_.place_beside(world, function, slice)) continue;
    best = &slice;
    best_used = used;
  }
  if (best == nullptr) return false;
  auto placement = placer_.place_beside(world, function, *best);
  if (best->exclusive) {
    decisions.push_back(ChangeAllocationMode{*best->exclusive, AllocationMode::kTimeSharing});
  }
  add_claim({function.function->id, std::move(*placement), AllocationMode::kTimeSharing, now});
  decisions.push_back(AskAgain{now});  // it may be settled by now
  return true;
}

// Slices of those who need them least, so many as the function needs beside what is free.
bool SloPolicy::claim_from_others(const SliceWorld& world, const std::vector<Demand>& demands,
                                  const Demand& needy, Instant now,
                                  std::vector<Decision>& decisions) {
  const FunctionState& function = *needy.function;
  const FunctionId id = function.function->id;
  FailedSearch& failed_search = no_donor_[id];
  // Pressures change all the time; after one look in vain the next is a little later.
  if (now < failed_search.again_at && failed_search.function_version == function.version &&
      (needy.staying > 0 || failed_search.slices_version == world.slices_version)) {
    decisions.push_back(AskAgain{failed_search.again_at});
    return false;
  }
  const double wanted_per_s = this->wanted_per_s(function, now);
  if (needy.staying > 0 && needy.capacity_per_s >= wanted_per_s) return false;
  const std::vector<Donor> donors = donors_for(world, demands, needy, now);
  std::vector<Slice> pool = unclaimed(world);
  for (size_t count = 0; count < donors.size(); ++count) {
    for (const DeviceId slice : donors[count].instance->placement.slices) {
      const SliceState& state = world.slices.at(slice);
      if (!state.lost && state.sharing.size() <= 1) pool.push_back(state.slice);
    }
    // Of all that is hardly missed the best is chosen; of what is, no more is taken than it needs.
    if (count + 1 < donors.size() && donors[count + 1].pressure <= kSpared) continue;
    if (!placer_.place_on(function, pool)) continue;
    auto placement = worth_.choose(world, function, pool, wanted_per_s);
    if (!placement) continue;
    for (size_t at = 0; at <= count; ++at) {
      const Instance& donor = *donors[at].instance;
      if (share_a_slice(donor.placement, *placement)) decisions.push_back(Retire{donor.id});
    }
    add_claim({id, std::move(*placement), AllocationMode::kExclusive, now});
    decisions.push_back(AskAgain{now});  // it may be settled by now
    return true;
  }
  failed_search = {world.slices_version, function.version, now + world.window / 4};
  decisions.push_back(AskAgain{failed_search.again_at});
  return false;
}

// Those that are missed least come first.
std::vector<SloPolicy::Donor> SloPolicy::donors_for(const SliceWorld& world,
                                                    const std::vector<Demand>& demands,
                                                    const Demand& needy, Instant now) const {
  const FunctionState& function = *needy.function;
  const bool late = now - function.queue.front().submitted > needy.allowed;
  const Need need = {.wait_s = seconds_to_serve(function, needy.capacity_per_s),
                     .start_s = start_seconds(function),
                     .has_turn = needy.staying == 0 && late};
  std::vector<Donor> donors;
  for (const Demand& demand : demands) {
    if (demand.function != needy.function) add_donors(world, demand, need, now, donors);
  }
  std::sort(donors.begin(), donors.end(), [](const Donor& a, const Donor& b) {
    if (a.pressure != b.pressure) return a.pressure < b.pressure;
    return a.used != b.used ? a.used < b.used : a.instance->id < b.instance->id;
  });
  return donors;
}

// Who can do without an instance gives it soon; who cannot, only to those who wait much longer, and
// after a while. Who has nothing at all gets a turn from those who have something.
void SloPolicy::add_donors(const SliceWorld& world, const Demand& demand, const Need& need,
                           Instant now, std::vector<Donor>& donors) const {
  double left_per_s = demand.capacity_per_s;
  size_t left = demand.staying;
  for (const Instance* instance : unclaimed_instances(world, *demand.function, now)) {
    const double without_per_s =
        left_per_s - capacity_of(*demand.function, *instance) * share_of(world, *instance, now);
    double pressure = pressure_with(demand, without_per_s, now);
    if (without_per_s > 0) {
      pressure = std::max(pressure, peak_per_s(demand.function->function->id, now) / without_per_s /
                                        options_.most_busy);
    }
    if (left == 1 && is_idle(world, *instance) && now - instance->last_used > kLeastStay) {
      pressure = kSpared;  // cold, not starving
    }
    const double starts = pressure <= 1 ? 1 : options_.stay_starts;
    const Duration stay =
        std::max(kLeastStay, from_seconds(to_seconds(start_time(world, *instance)) * starts));
    const bool stayed = is_idle(world, *instance) || now - instance->ready >= stay;
    const double others_wait_s = seconds_to_serve(*demand.function, without_per_s);
    const bool spared =
        pressure <= 1 || need.wait_s > options_.spare_ratio * std::max(need.start_s, others_wait_s);
    if (!stayed || (!spared && !need.has_turn)) continue;
    --left;
    left_per_s = without_per_s;
    donors.push_back({instance, pressure, instance->last_used});
  }
}

// First those that have hardly anything to do, the oldest, which was the best placement then.
std::vector<const Instance*> SloPolicy::unclaimed_instances(const SliceWorld& world,
                                                            const FunctionState& function,
                                                            Instant now) const {
  std::vector<const Instance*> found;
  for (const InstanceId each : function.instances) {
    const Instance& instance = world.instances.at(each);
    if (!instance.is_open()) continue;
    const bool claimed =
        std::any_of(instance.placement.slices.begin(), instance.placement.slices.end(),
                    [&](DeviceId slice) { return is_claimed(slice); });
    if (!claimed) found.push_back(&instance);
  }
  const auto busy = [now](const Instance* instance) {
    const double given = instance->given.per_s(now);
    return given < kHardlyBusy ? 0 : given;
  };
  std::sort(found.begin(), found.end(), [&](const Instance* a, const Instance* b) {
    return busy(a) != busy(b) ? busy(a) < busy(b) : a->id < b->id;
  });
  return found;
}

void SloPolicy::settle_claims(const SliceWorld& world, Instant now,
                              std::vector<Decision>& decisions) {
  for (auto claim = claims_.begin(); claim != claims_.end();) {
    const FunctionState* function = world.find(claim->function);
    bool done = function == nullptr || function->queue.empty() || function->start_again_at > now ||
                now - claim->made > kLongestClaim;
    for (const DeviceId id : claim->placement.slices) {
      const auto slice = world.slices.find(id);
      done = done || slice == world.slices.end() || slice->second.lost;
    }
    if (!done && !settle(world, *claim, decisions)) {
      decisions.push_back(AskAgain{claim->made + kLongestClaim + microseconds(1)});
      ++claim;
      continue;
    }
    for (const DeviceId id : claim->placement.slices) claimed_.erase(id);
    claim = claims_.erase(claim);
    no_free_.clear();  // its slices may be had again
  }
}

// Starts it if its slices are clear. Whether that was so, or never will be.
bool SloPolicy::settle(const SliceWorld& world, const Claim& claim,
                       std::vector<Decision>& decisions) {
  if (claim.allocation_mode == AllocationMode::kExclusive) {
    for (const DeviceId id : claim.placement.slices) {
      const SliceState& slice = world.slices.at(id);
      if (slice.is_free()) continue;
      std::vector<InstanceId> holders = slice.sharing;
      if (slice.exclusive) holders.push_back(*slice.exclusive);
      return std::any_of(holders.begin(), holders.end(),
                         [&](InstanceId holder) { return !world.instances.at(holder).retiring; });
    }
  } else {
    const FunctionState& state = *world.find(claim.function);
    const SliceState& slice = world.slices.at(claim.placement.slices.front());
    if (slice.exclusive || slice.sharing.empty() || world.sharing_instance(state) != nullptr ||
        !placer_.place_beside(world, state, slice)) {
      return true;
    }
    if (const Instance* occupant = world.occupant(slice)) {
      // Who is not done with its turn keeps it: route() defers what comes after.
      if (occupant->is_open() && occupant->jobs == 0) decisions.push_back(Unload{occupant->id});
      return false;
    }
  }
  decisions.push_back(Start{claim.function, claim.placement, claim.allocation_mode});
  return true;
}

}  // namespace lambent::slice_scheduling
