#include "decide/scheduling/cfs_affinity.h"

#include <algorithm>

#include "decide/scheduling/first_that_fits.h"

namespace lambent::scheduling {

void CfsAffinityPolicy::flow_changed(const View& view, FunctionId function, Instant) {
  Client& changed = client(function);
  settle(view.flow(function), changed);
  // One that was registered again may be behind.
  if (view.flow(function).has_work()) changed.runtime = std::max(changed.runtime, least_);
  index(view, function);
}

void CfsAffinityPolicy::enqueued(const View& view, FunctionId function, Instant) {
  const Flow& flow = view.flow(function);
  if (flow.pending == 1 && flow.in_flight == 0) {
    Client& woken = client(function);
    woken.runtime = std::max(woken.runtime, least_);
  }
  index(view, function);
}

void CfsAffinityPolicy::dispatched(const View& view, FunctionId function, Instant) {
  const Flow& flow = view.flow(function);
  Client& served = client(function);
  const Duration expected = flow.execution.mean_or(Duration(0));
  const Duration charge =
      flow.weight == 1 ? expected : from_seconds(to_seconds(expected) / flow.weight);
  served.runtime += charge;
  served.charged += charge;
  ++served.running;
  find_near(view, function);
  index(view, function);
}

void CfsAffinityPolicy::finished(const View& view, FunctionId function, Instant) {
  settle(view.flow(function), client(function));
  index(view, function);
}

void CfsAffinityPolicy::places_changed(const View& view, FunctionId function, Instant) {
  find_near(view, function);
}

Decision CfsAffinityPolicy::decide(const View& view, Instant) {
  WaitReason reason = WaitReason::kConcurrencyLimit;
  const std::vector<Device>& devices = view.fleet.devices();
  // The device with the least of all first, then the less loaded one.
  std::optional<uint32_t> best;
  Duration least{};
  const auto load = [&](uint32_t device) {
    return devices[device].tokens_held + devices[device].start_slots_held;
  };
  for (uint32_t device = 0; device < devices.size(); ++device) {
    if (!view.fleet.device_table().room().is_open(devices[device])) continue;
    const auto first = first_on(device);
    if (!first) break;  // none waits
    if (best &&
        (first->weighted > least || (first->weighted == least && load(device) >= load(*best)))) {
      continue;
    }
    best = device;
    least = first->weighted;
  }
  if (!best) return Decision::nothing(reason);
  if (const auto decision = decide_on(view, *best, reason)) return *decision;
  WaitReason other_reason = reason;
  for (uint32_t device = 0; device < devices.size(); ++device) {
    if (device == *best || !view.fleet.device_table().room().is_open(devices[device])) continue;
    if (const auto decision = decide_on(view, device, other_reason)) return *decision;
  }
  return Decision::nothing(reason);
}

std::optional<CfsAffinityPolicy::First> CfsAffinityPolicy::first_on(uint32_t device) const {
  if (anywhere_.empty()) return std::nullopt;
  // A near flow is in both heaps and has less in this one, so the lesser of the two is right.
  if (device < near_.size() && !near_[device].empty() &&
      near_[device].top_key() <= anywhere_.top_key()) {
    return First{near_[device].top(), near_[device].top_key()};
  }
  return First{anywhere_.top(), anywhere_.top_key()};
}

std::optional<Decision> CfsAffinityPolicy::decide_on(const View& view, uint32_t device,
                                                     WaitReason& reason) {
  std::optional<Decision> decision;
  passed_over_.clear();
  size_t held = 0;  // by quotas of their tenants: the others are looked at all the same
  const bool is_idle = view.fleet.devices()[device].is_idle();
  while (const auto first = first_on(device)) {
    const FunctionId function{first->function};
    if (view.hold_of(function) != WaitReason::kNone) {
      ++held;
      passed_over_.push_back(function);
      take(function);
      continue;
    }
    const PlaceOrReason found = view.fleet.places().find_on(device, function, view.flow(function));
    if (found.place) {
      decision = Decision::to(function, *found.place);
      break;
    }
    if (passed_over_.size() == held) reason = found.reason;
    if (passed_over_.size() - held >= kLookAhead && !is_idle) break;
    passed_over_.push_back(function);
    take(function);
  }
  for (const FunctionId function : passed_over_) put(view.flow(function), function);
  return decision;
}

void CfsAffinityPolicy::look_ahead(const View&, size_t most, std::vector<FunctionId>& out) {
  take_first(anywhere_, most, out);
}

WaitReason CfsAffinityPolicy::why_waiting(const View& view, FunctionId function) const {
  const Flow& flow = view.flow(function);
  if (flow.in_flight >= flow.max_concurrency) return WaitReason::kConcurrencyLimit;
  const PlaceOrReason found = view.fleet.places().find(function, flow, false);
  return found.place ? WaitReason::kBehindOthers : found.reason;
}

FlowStatus CfsAffinityPolicy::status(const View& view, FunctionId function, Instant) const {
  const Duration runtime =
      function.value < clients_.size() ? clients_[function.value].runtime : Duration(0);
  return {view.flow(function).has_work() ? FlowState::kActive : FlowState::kInactive, runtime};
}

void CfsAffinityPolicy::archive(StateArchive& archive) {
  archive.field(least_);
  archive.list(clients_, [&](Client& each) {
    archive.field(each.runtime);
    archive.field(each.charged);
    archive.field(each.running);
    archive.field(each.executed);
    archive.list(each.near);
  });
  working_.archive(archive);
  anywhere_.archive(archive);
  archive.list(near_, [&](IndexedHeap<Duration>& heap) { heap.archive(archive); });
  for (const Client& each : clients_) {
    for (const uint32_t device : each.near) archive.expect(device < near_.size());
  }
}

CfsAffinityPolicy::Client& CfsAffinityPolicy::client(FunctionId function) {
  if (function.value >= clients_.size()) clients_.resize(function.value + 1);
  return clients_[function.value];
}

// Of what is over, takes the expected back and charges what it took. One that ended without having
// run costs nothing.
void CfsAffinityPolicy::settle(const Flow& flow, Client& client) {
  while (client.running > flow.in_flight) {
    const Duration share = client.charged / client.running;
    client.charged -= share;
    client.runtime -= share;
    --client.running;
  }
  const Duration total = flow.execution.total();
  // A function that was registered again has a new account.
  const Duration executed = total < client.executed ? total : total - client.executed;
  client.executed = flow.execution.total();
  client.runtime += flow.weight == 1 ? executed : from_seconds(to_seconds(executed) / flow.weight);
}

void CfsAffinityPolicy::index(const View& view, FunctionId function) {
  const Flow& flow = view.flow(function);
  if (flow.has_work()) {
    working_.put(function.value, client(function).runtime);
  } else {
    working_.erase(function.value);
  }
  if (flow.pending > 0 && flow.in_flight < flow.max_concurrency) {
    put(flow, function);
  } else {
    take(function);
  }
  advance_least();
}

void CfsAffinityPolicy::put(const Flow& flow, FunctionId function) {
  const Client& waiting = clients_[function.value];
  anywhere_.put(function.value, waiting.runtime + penalty_of(flow));
  for (const uint32_t device : waiting.near) near_[device].put(function.value, waiting.runtime);
}

void CfsAffinityPolicy::take(FunctionId function) {
  anywhere_.erase(function.value);
  for (const uint32_t device : clients_[function.value].near) near_[device].erase(function.value);
}

void CfsAffinityPolicy::find_near(const View& view, FunctionId function) {
  now_near_.clear();
  for (SandboxSlot slot = view.fleet.idle().newest_of(function); slot != kNoSandbox;
       slot = view.fleet.sandbox(slot).older) {
    const Sandbox& sandbox = view.fleet.sandbox(slot);
    const bool has_memory =
        sandbox.memory_state == MemoryState::kIn || sandbox.memory_state == MemoryState::kMovingIn;
    if (has_memory) now_near_.push_back(sandbox.device);
  }
  Client& moved = client(function);
  if (moved.near == now_near_) return;
  const bool waits = anywhere_.contains(function.value);
  if (waits) take(function);
  moved.near = now_near_;
  if (near_.size() < view.fleet.devices().size()) near_.resize(view.fleet.devices().size());
  if (waits) put(view.flow(function), function);
}

void CfsAffinityPolicy::advance_least() {
  if (!working_.empty()) least_ = std::max(least_, working_.top_key());
}

Duration CfsAffinityPolicy::penalty_of(const Flow& flow) const {
  return from_seconds(options_.penalty * to_seconds(flow.execution.mean_or(Duration(0))) /
                      flow.weight);
}

}  // namespace lambent::scheduling
