// The part of SloPolicy that decides who serves which request, and who is on a slice that several
// share.
#include <algorithm>

#include "decide/slice_scheduling/batch_size.h"
#include "decide/slice_scheduling/slo_policy.h"

namespace lambent::slice_scheduling {
namespace {

// Where nothing was measured of batches: so many jobs have two requests, to find it out; later one
// of so many that could. By then the components seem to run them one after the other.
constexpr unsigned kBatchTries = 8;
constexpr unsigned kTryAgain = 64;

// The first in the queue that is in time if it is finished then. Deadlines ascend with submission.
size_t first_in_time(const FunctionState& function, Instant finish) {
  const auto& queue = function.queue;
  return static_cast<size_t>(std::lower_bound(queue.begin(), queue.end(), finish,
                                              [](const QueuedRequest& request, Instant by) {
                                                return request.deadline < by;
                                              }) -
                             queue.begin());
}

// What it takes to have `next` on the slice of `occupant`.
Duration change_time(const Instance& occupant, const Instance& next) {
  return occupant.placement.load + next.placement.load;
}

}  // namespace

void SloPolicy::route(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) {
  for (const auto& [id, function] : world.functions) {
    if (!function.queue.empty()) route(world, function, now, decisions);
  }
}

// One job for the quickest instance that has a place; the dispatcher asks again.
void SloPolicy::route(const SliceWorld& world, const FunctionState& function, Instant now,
                      std::vector<Decision>& decisions) {
  const Instance* best = nullptr;
  Duration quickest = Duration::max();
  double quicker_per_s = 0;  // than `best`: what instances without a place give
  size_t open = 0;
  for (const InstanceId id : function.instances) {
    const Instance& instance = world.instances.at(id);
    if (!instance.is_open()) continue;
    ++open;
    quickest = std::min(quickest, instance.latency());
  }
  if (open == 0) return;
  for (const InstanceId id : function.instances) {
    const Instance& instance = world.instances.at(id);
    if (!instance.is_open()) continue;
    if (!instance.has_place(now)) {
      if (instance.ahead_at() != kNever) decisions.push_back(AskAgain{instance.ahead_at()});
      continue;
    }
    if (instance.allocation_mode == AllocationMode::kTimeSharing &&
        must_yield(world, instance, now))
      continue;
    if (const Instant begin = may_begin(world, instance); begin > now) {
      decisions.push_back(AskAgain{begin});
      continue;
    }
    if (best == nullptr || instance.finish_of(1, now) < best->finish_of(1, now)) best = &instance;
  }
  if (best == nullptr) return;
  for (const InstanceId id : function.instances) {
    const Instance& instance = world.instances.at(id);
    if (!instance.is_open() || instance.latency() >= best->latency()) continue;
    quicker_per_s += capacity_of(function, instance);
  }
  const size_t late = first_in_time(function, now + quickest);
  size_t from = first_in_time(function, best->finish_of(1, now));
  if (late > 0) {
    // Those that are late make no other late, but have a turn now and then.
    unsigned& given = jobs_given_[function.function->id];
    if (from == function.queue.size() || ++given >= options_.late_turn) {
      given = 0;
      from = 0;
    }
  } else if (from == function.queue.size()) {
    // In time nowhere but on quicker ones; left to these if they can get at all in time.
    const QueuedRequest& last = function.queue.back();
    const Duration wait =
        from_seconds(static_cast<double>(function.queue.size()) / std::max(quicker_per_s, 1e-6));
    if (quicker_per_s > 0 && now + wait + quickest <= last.deadline) {
      decisions.push_back(AskAgain{last.deadline - quickest + microseconds(1)});
      return;
    }
    from = 0;
  }
  size_t together = 1;
  if (!best->placement.batches.empty()) {
    jobs_not_measured_.erase(function.function->id);
    // Those that wait are shared among all that are open.
    together = batch_size(*best,
                          {.waiting = (function.queue.size() - from + open - 1) / open,
                           .most = function.function->most_batch,
                           .slo = function.function->slo,
                           .due = function.queue[from].deadline},
                          now);
  } else if (tries_batch(function, *best, from, open, now)) {
    together = 2;
  }
  Assign assign{.requests = {}, .instance = best->id};
  for (size_t at = from; at < function.queue.size() && assign.requests.size() < together; ++at) {
    assign.requests.push_back(function.queue[at].id);
  }
  decisions.push_back(std::move(assign));
}

// Whether a job of this instance has two requests to find out what batches take. If they run one
// after the other the first waits for the second, and nothing is gained.
bool SloPolicy::tries_batch(const FunctionState& function, const Instance& instance, size_t from,
                            size_t open, Instant now) {
  const size_t waiting = function.queue.size() - from;
  if (function.function->most_batch < 2 || waiting < 2 || waiting <= open) return false;
  const bool is_in_time = instance.finish_of(2, now) <= function.queue[from].deadline;
  const bool is_backlogged = function.queue.size() > 2 * open;
  if (!is_in_time && !is_backlogged) return false;
  const unsigned jobs = jobs_not_measured_[function.function->id]++;
  return jobs < kBatchTries || jobs % kTryAgain == 0;
}

// When an instance to which its function moves from a pipeline may have a job: so late that this is
// done, as far as is known, after all that the pipeline still has. A request waits no longer for it
// than the pipeline would have taken.
Instant SloPolicy::may_begin(const SliceWorld& world, const Instance& instance) const {
  const auto found = migrations_.find(instance.function);
  if (found == migrations_.end() || instance.placement.slices.front() != found->second.to) {
    return Instant{};
  }
  const Instance* old = world.find(found->second.from);
  if (old == nullptr || old->jobs == 0) return Instant{};
  return old->busy_until + old->latency() - old->bottleneck() - instance.latency();
}

// Whether others who share its slice, or wait for it, come before the next job of this instance.
bool SloPolicy::must_yield(const SliceWorld& world, const Instance& instance, Instant now) const {
  const DeviceId id = instance.placement.slices.front();
  const SliceState& slice = world.slices.at(id);
  const bool served = instance.last_used > instance.loaded || instance.jobs > 0;
  if (!served) return false;  // it came for a request
  const Duration turn = now - instance.loaded;
  if (is_claimed(id)) {
    return turn >= from_seconds(to_seconds(instance.placement.load) * 2 * options_.turn_moves);
  }
  for (const InstanceId each : slice.sharing) {
    const Instance& other = world.instances.at(each);
    if (each == instance.id || other.retiring || other.load_state != LoadState::kUnloaded) continue;
    const FunctionState& function = world.functions.at(other.function);
    if (function.queue.empty()) continue;
    const Duration change = change_time(instance, other);
    if (turn >= from_seconds(to_seconds(change) * options_.turn_moves)) return true;
    // One more job here and the other is late; but not if it is late already, nor before the turn
    // was worth the change.
    if (turn < change) continue;
    const Instant finish = now + change + other.latency();
    const size_t first = first_in_time(function, finish);
    if (first == function.queue.size()) continue;
    const FunctionState& own = world.functions.at(instance.function);
    const bool own_in_time = first_in_time(own, now + instance.latency()) < own.queue.size();
    if (!own_in_time || function.queue[first].deadline < finish + instance.latency()) return true;
  }
  return false;
}

// Who comes to a shared slice next, of those that wait for it. Mostly the one whose oldest request
// that can be in time has least time left, then those that are late; but one change of so many goes
// to the one away longest, or what is late would stay so beside others that never are.
const Instance* SloPolicy::next_on(const SliceWorld& world, const SliceState& slice,
                                   Instant now) const {
  const auto turns = turns_.find(slice.slice.id);
  const unsigned changes = turns == turns_.end() ? 0 : turns->second.changes;
  const bool longest_away = (changes + 1) % std::max(1U, options_.turn_of_longest_away) == 0;
  const Instance* next = nullptr;
  Instant least = kNever;
  for (const InstanceId each : slice.sharing) {
    const Instance& instance = world.instances.at(each);
    if (instance.retiring || instance.load_state != LoadState::kUnloaded) continue;
    const FunctionState& function = world.functions.at(instance.function);
    if (function.queue.empty()) continue;
    const Instant rank = longest_away ? instance.loaded : start_by(instance, function, now);
    if (next != nullptr && rank >= least) continue;
    next = &instance;
    least = rank;
  }
  return next;
}

// When this instance should be on its slice: so that its oldest request that can be in time is, or
// does not wait longer than one without SLO may; those that are late come after.
Instant SloPolicy::start_by(const Instance& instance, const FunctionState& function,
                            Instant now) const {
  const Duration latency = instance.latency();
  const size_t first = first_in_time(function, now + instance.placement.load + latency);
  if (first == function.queue.size()) {
    return function.queue.front().submitted + std::chrono::hours(1);
  }
  const QueuedRequest& request = function.queue[first];
  if (request.deadline != kNever) return request.deadline - latency;
  return request.submitted + from_seconds(to_seconds(latency) * options_.waits_without_slo);
}

void SloPolicy::take_turns(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) {
  if (world.queued.empty()) return;
  for (const auto& [id, slice] : world.slices) {
    if (slice.sharing.empty() || slice.lost || is_claimed(id)) continue;
    const Instance* occupant = world.occupant(slice);
    if (occupant != nullptr && (!occupant->is_open() || occupant->jobs > 0)) continue;
    Turns& turns = turns_[id];
    const Instance* next = occupant == nullptr ? world.find(turns.promised_to) : nullptr;
    // For whom it was cleared, if that one still waits.
    const bool waits =
        next != nullptr && !next->retiring && next->load_state == LoadState::kUnloaded &&
        next->placement.slices.front() == id && !world.functions.at(next->function).queue.empty();
    if (!waits) next = next_on(world, slice, now);
    if (next == nullptr) continue;
    if (occupant == nullptr) {
      turns.promised_to = {};
      ++turns.changes;
      decisions.push_back(Load{next->id});
      continue;
    }
    const FunctionState& own = world.functions.at(occupant->function);
    if (own.queue.empty() || must_yield(world, *occupant, now)) {
      turns.promised_to = next->id;
      decisions.push_back(Unload{occupant->id});
    }
  }
}

}  // namespace lambent::slice_scheduling
