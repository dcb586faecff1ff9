#include "decide/dispatch/min_instances.h"

#include <algorithm>

#include "decide/scheduling/place_victims.h"

namespace lambent::dispatch {

using scheduling::Flow;
using scheduling::Place;
using scheduling::Sandbox;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

namespace {

// On a device.
constexpr unsigned kStartsAtOnce = 2;
// Where there was no room, or others start: when it is looked for again.
constexpr Duration kLookAgain = seconds(1);
constexpr Duration kLongestLookAgain = seconds(15);
constexpr Duration kLookAfterStarts = milliseconds(200);
// After so many failures one after the other: 1, 2, 4, ... seconds, as Kubernetes does it with
// containers, whose bounds these are.
constexpr Duration kFirstBackOff = seconds(1);
constexpr Duration kLongestBackOff = seconds(300);
constexpr Duration kForgetFailures = seconds(600);
// The same after an eviction.
constexpr Duration kLongestAfterEviction = seconds(60);
constexpr Duration kForgetEvictions = seconds(180);

Duration back_off(uint32_t failures) {
  const uint32_t doublings = std::min(failures, 10U) - 1;
  return std::min<Duration>(kFirstBackOff * (1U << doublings), kLongestBackOff);
}

}  // namespace

MinInstances::Known& MinInstances::known(FunctionId function) {
  if (function.value >= known_.size()) known_.resize(function.value + 1);
  return known_[function.value];
}

// ---- What happened

bool MinInstances::registered(FunctionId function, bool changed, bool serves) {
  const Flow& flow = flows_[function.value];
  if (flow.min_instances == 0) {
    if (function.value < known_.size()) removed(function);
    return false;
  }
  Known& now = known(function);
  looks_.put(function.value, log_.now());
  if (!changed) return now.hand_over_until != Instant{};
  now = {};
  if (!serves || admission_.draining() || !is_kept_here(function)) return false;
  now.hand_over_until = log_.now() + std::max(options_.init_timeout, flow.timeout);
  return true;
}

void MinInstances::removed(FunctionId function) {
  if (function.value >= known_.size()) return;
  known_[function.value] = {};
  looks_.erase(function.value);
}

void MinInstances::ended(FunctionId function, uint64_t revision, uint64_t served) {
  if (!is_registered(flows_, function)) return;
  const Flow& flow = flows_[function.value];
  if (flow.min_instances == 0 || flow.revision != revision) return;
  Known& now = known(function);
  // What a call did to its sandbox is no reason to wait: calls bound how often it happens.
  if (served > 0 || log_.now() - now.failed_at > kForgetFailures) now.failures = 0;
  if (served == 0) {
    ++now.failures;
    now.failed_at = log_.now();
    now.not_before = log_.now() + back_off(now.failures);
    if (now.hand_over_until != Instant{}) end_hand_over(function);
  }
  looks_.put(function.value, log_.now());
}

// ---- Questions

// Whether what it has is kept: the policy lets it, and it may use its processors now.
bool MinInstances::is_kept_here(FunctionId function) const {
  if (!is_registered(flows_, function)) return false;
  const Flow& flow = flows_[function.value];
  return flow.min_instances > 0 && flow.max_concurrency > 0 &&
         pools_.of(flow).scheduler().policy().keeps_instances();
}

MinInstances::Count MinInstances::count(const DevicePool& pool, FunctionId function) const {
  Count found;
  for (const SandboxSlot slot : pool.fleet().all()) {
    const Sandbox& sandbox = pool.fleet().sandbox(slot);
    if (sandbox.function != function || sandbox.revision != flows_[function.value].revision ||
        sandbox.state == SandboxState::kStopping) {
      continue;
    }
    ++(is_start(sandbox.state) ? found.starting : found.ready);
  }
  return found;
}

bool MinInstances::keeps(const DevicePool& pool, const Sandbox& sandbox) const {
  if (!is_kept_here(sandbox.function) || admission_.draining()) return false;
  const Flow& flow = flows_[sandbox.function.value];
  if (&pools_.of(flow) != &pool) return false;
  if (sandbox.revision != flow.revision) return hands_over(sandbox.function);
  return count(pool, sandbox.function).ready <= flow.min_instances;
}

bool MinInstances::hands_over(FunctionId function) const {
  return function.value < known_.size() && known_[function.value].hand_over_until != Instant{};
}

InstanceStatus MinInstances::status(FunctionId function) const {
  InstanceStatus status;
  if (!is_registered(flows_, function)) return status;
  const Flow& flow = flows_[function.value];
  status.wanted = flow.min_instances;
  const Count found = count(pools_.of(flow), function);
  status.ready = found.ready;
  status.starting = found.starting;
  if (function.value >= known_.size()) return status;
  status.failures = known_[function.value].failures;
  status.next_start = known_[function.value].not_before;
  status.hands_over = hands_over(function);
  return status;
}

// ---- Starts

void MinInstances::note_changes(Duration later) {
  for (DevicePool* pool : pools_.all()) {
    if (!pool->any_changed()) continue;
    for (const DevicePool::Changed& changed : pool->take_changed()) {
      looks_.put(changed.function.value, log_.now() + later);
      if (changed.evicted_unused) note_eviction(known(changed.function));
    }
  }
}

void MinInstances::note_eviction(Known& now) {
  if (log_.now() - now.evicted_at > kForgetEvictions) now.evictions = 0;
  ++now.evictions;
  now.evicted_at = log_.now();
  const Duration wait = std::min<Duration>(back_off(now.evictions), kLongestAfterEviction);
  now.not_before = std::max(now.not_before, log_.now() + wait);
}

void MinInstances::look() {
  note_changes(Duration(0));
  while (looks_.any_until(log_.now())) look_at(FunctionId{looks_.pop()});
}

void MinInstances::look_at(FunctionId function) {
  if (!is_registered(flows_, function) || admission_.draining()) return;
  const Flow& flow = flows_[function.value];
  if (flow.min_instances == 0) return;
  if (!is_kept_here(function)) {
    end_hand_over(function);
    looks_.put(function.value, log_.now() + kLongestLookAgain);
    return;
  }
  DevicePool& pool = pools_.of(flow);
  Count found = count(pool, function);
  Known& now = known(function);
  if (found.ready >= flow.min_instances || log_.now() >= now.hand_over_until) {
    end_hand_over(function);
  }
  Instant again = now.hand_over_until != Instant{} ? now.hand_over_until : kNever;
  while (found.all() < flow.min_instances) {
    if (log_.now() < now.not_before) {
      again = std::min(again, now.not_before);
      break;
    }
    const auto place = place_for(pool, function);
    if (!place) {
      // What is to leave may be all that stands in the way.
      end_hand_over(function);
      again = log_.now() +
              std::min<Duration>(kLookAgain * std::min(++now.searches, 15U), kLongestLookAgain);
      break;
    }
    now.searches = 0;
    if (most_starts_ahead_on(pool, *place) >= kStartsAtOnce) {
      again = std::min<Instant>(again, log_.now() + kLookAfterStarts);
      break;
    }
    ++started_;
    ++found.starting;
    placements_.start_ahead(pool, function, *place);
  }
  if (again != kNever) looks_.put(function.value, again);
}

// A place for a start that no call waits for.
std::optional<Place> MinInstances::place_for(DevicePool& pool, FunctionId id) {
  const scheduling::Fleet& fleet = pool.fleet();
  const Flow& flow = flows_[id.value];
  const Bytes memory = flow.device_memory;
  if (!room_.make_room_beside_kept(flow.tenant_slot,
                                   {.gpu = memory * flow.gpu_count, .host = flow.host_memory})) {
    return std::nullopt;
  }
  const bool takes_several = flow.gpu_count > 1;
  const auto found =
      takes_several
          ? fleet.places().gangs().cold({.function = id, .count = flow.gpu_count, .memory = memory})
          : fleet.places().find_new(memory);
  if (!found.place) return std::nullopt;
  // What waits goes first.
  const scheduling::Device& device = fleet.devices()[found.place->device];
  const bool starts_beside =
      !takes_several && fleet.device_table().room().has_start_slot(device, memory);
  if (!starts_beside && queues_.pending(pool.processor()) > 0) {
    return std::nullopt;
  }
  unsigned gone = 0;
  for (const SandboxSlot slot : victims_for(fleet, *found.place, memory, flows_, log_.now())) {
    const FunctionId function = fleet.sandbox(slot).function;
    const Flow& loses = flows_[function.value];
    if (loses.pending > 0 || is_kept(fleet, loses, function, gone++)) return std::nullopt;
  }
  return found.place;
}

// Of the place's devices, on the one with the most.
unsigned MinInstances::most_starts_ahead_on(const DevicePool& pool, const Place& place) const {
  const auto& all = pool.fleet().all();
  const auto starts_on = [&](uint32_t device) {
    return static_cast<unsigned>(std::count_if(all.begin(), all.end(), [&](SandboxSlot slot) {
      const Sandbox& sandbox = pool.fleet().sandbox(slot);
      return sandbox.is_on(device) && is_start(sandbox.state) && !sandbox.has_invocation;
    }));
  };
  unsigned most = starts_on(place.device);
  scheduling::for_each_device_in(
      place.beside, [&](uint32_t device) { most = std::max(most, starts_on(device)); });
  return most;
}

void MinInstances::end_hand_over(FunctionId function) {
  if (!hands_over(function)) return;
  known_[function.value].hand_over_until = Instant{};
  const uint64_t revision = flows_[function.value].revision;
  for (DevicePool* pool : pools_.all()) pool->retire_others(function, revision);
}

// ---- As bytes

bool MinInstances::is_state() const {
  return started_ > 0 || !known_.empty() ||
         std::any_of(flows_.begin(), flows_.end(), [](const Flow& flow) {
           return flow.min_instances > 0 || flow.keep_alive.count() > 0;
         });
}

void MinInstances::archive(StateArchive& archive) {
  archive.list(known_, [&](Known& one) {
    archive.field(one.failures);
    archive.field(one.failed_at);
    archive.field(one.not_before);
    archive.field(one.hand_over_until);
    archive.field(one.searches);
    archive.field(one.evictions);
    archive.field(one.evicted_at);
  });
  looks_.archive(archive);
  archive.field(started_);
}

}  // namespace lambent::dispatch
