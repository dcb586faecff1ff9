#include "decide/scheduling/exclusive.h"

#include <algorithm>
#include <tuple>

namespace lambent::scheduling {

void ExclusivePolicy::adapt(FleetOptions& options) const {
  for (DeviceOptions& device : options.devices) {
    device.tokens = 1;
    device.contexts = 1;
    device.by_utilisation.reset();
  }
  options.memory_rule = MemoryRule::kEverySandbox;
  options.starts_outside_tokens = 0;
  options.second_grace_period = 0;  // a pool grows by its own rules
}

void ExclusivePolicy::flow_changed(const View& view, FunctionId function, Instant) {
  follow(view);
  give_back(view, function);
  index(view, function);
}

void ExclusivePolicy::enqueued(const View& view, FunctionId function, Instant) {
  follow(view);
  index(view, function);
  if (!wanting_.contains(function.value) || serves_at_once(view, function)) return;
  // One that a quota of its tenant holds takes no device from others. Without any it asks again.
  if (view.hold_of(function) != WaitReason::kNone) return;
  if (!claim_unowned(view, function)) claim_from_largest(view, function);
}

void ExclusivePolicy::dispatched(const View& view, FunctionId function, Instant) {
  if (chosen_ && holdings_[*chosen_].claimed) {
    holdings_[*chosen_].claimed = false;
    --pool(function).claims;
  }
  chosen_.reset();
  give_back(view, function);
  index(view, function);
}

void ExclusivePolicy::finished(const View& view, FunctionId function, Instant) {
  index(view, function);
}

// A device whose worker is gone has no owner.
void ExclusivePolicy::places_changed(const View& view, FunctionId function, Instant) {
  for (uint32_t device = 0; device < holdings_.size(); ++device) {
    const Holding& holding = holdings_[device];
    if (!holding.owned || holding.claimed || holding.owner != function) continue;
    const auto worker = worker_on(view, device);
    if (worker && view.fleet.sandbox(*worker).function == function) continue;
    release(view, device);
    index(view, function);
  }
}

Decision ExclusivePolicy::decide(const View& view, Instant) {
  follow(view);
  serve_those_without_device(view);
  // Of the devices that are free, the one whose owner has waited longest; its worker if it has one.
  std::optional<std::tuple<uint64_t, bool, uint32_t>> first;
  std::optional<Decision> decision;
  WaitReason reason = WaitReason::kOwnPool;
  for (uint32_t device = 0; device < holdings_.size(); ++device) {
    const Holding& holding = holdings_[device];
    if (!holding.owned || !view.fleet.devices()[device].has_token()) continue;
    const Flow& flow = view.flow(holding.owner);
    if (flow.pending == 0 || flow.in_flight >= flow.max_concurrency) continue;
    if (flow.device_memory == Bytes(0)) continue;
    if (const WaitReason hold = view.hold_of(holding.owner); hold != WaitReason::kNone) {
      reason = hold;
      continue;
    }
    const PlaceOrReason found = view.fleet.places().find_on(device, holding.owner, flow);
    if (!found.place) {
      reason = found.reason;
      continue;
    }
    const std::tuple rank{flow.oldest, found.place->warm == kNoSandbox, device};
    if (first && *first < rank) continue;
    first = rank;
    decision = Decision::to(holding.owner, *found.place);
  }
  if (!decision) return Decision::nothing(reason);
  chosen_ = decision->place.device;
  return *decision;
}

WaitReason ExclusivePolicy::why_waiting(const View& view, FunctionId function) const {
  const Flow& flow = view.flow(function);
  if (flow.in_flight >= flow.max_concurrency) return WaitReason::kConcurrencyLimit;
  const Pool of_it = function.value < pools_.size() ? pools_[function.value] : Pool{};
  if (of_it.claims > 0) return WaitReason::kPoolHandover;
  if (of_it.size > 0) return WaitReason::kOwnPool;
  const auto& devices = view.fleet.devices();
  const bool any = std::any_of(devices.begin(), devices.end(),
                               [](const Device& device) { return device.healthy; });
  return any ? WaitReason::kBehindOthers : WaitReason::kNoDevice;
}

FlowStatus ExclusivePolicy::status(const View& view, FunctionId function, Instant) const {
  return {view.flow(function).has_work() ? FlowState::kActive : FlowState::kInactive, {}};
}

void ExclusivePolicy::archive(StateArchive& archive) {
  archive.list(holdings_, [&](Holding& holding) {
    archive.field(holding.owned);
    archive.field(holding.claimed);
    archive.field(holding.owner);
  });
  archive.list(pools_, [&](Pool& each) {
    archive.field(each.size);
    archive.field(each.claims);
    archive.field(each.shrunken);
  });
  archive.field(shrinks_);
  wanting_.archive(archive);
  without_device_.archive(archive);
  for (const Holding& holding : holdings_) {
    archive.expect(!holding.owned || holding.owner.value < pools_.size());
  }
}

ExclusivePolicy::Pool& ExclusivePolicy::pool(FunctionId function) {
  if (function.value >= pools_.size()) pools_.resize(function.value + 1);
  return pools_[function.value];
}

// Silent devices have no owner until they answer, nor has one on which a stopped process does not
// go, or which its owner has outgrown, or took for a request that its tenant's quota now holds.
void ExclusivePolicy::follow(const View& view) {
  const std::vector<Device>& devices = view.fleet.devices();
  if (holdings_.size() < devices.size()) holdings_.resize(devices.size());
  for (uint32_t device = 0; device < devices.size(); ++device) {
    const Holding& holding = holdings_[device];
    if (!holding.owned) continue;
    const bool is_held = holding.claimed && view.hold_of(holding.owner) != WaitReason::kNone;
    if (is_held || !could_hold(view, device, holding.owner)) release(view, device);
  }
  for (const SandboxSlot slot : view.fleet.all()) {
    const Sandbox& sandbox = view.fleet.sandbox(slot);
    if (sandbox.hangs && holdings_[sandbox.device].owned) release(view, sandbox.device);
  }
}

void ExclusivePolicy::index(const View& view, FunctionId function) {
  const Flow& flow = view.flow(function);
  const Pool of_it = pool(function);
  // One that no longer uses a GPU has its queue elsewhere.
  const bool wants = flow.device_memory > Bytes(0) && flow.pending > of_it.claims &&
                     flow.in_flight + of_it.claims < flow.max_concurrency;
  if (wants) {
    wanting_.put(function.value, flow.oldest);
  } else {
    wanting_.erase(function.value);
  }
  if (wants && of_it.size == 0) {
    without_device_.put(function.value, flow.oldest);
  } else {
    without_device_.erase(function.value);
  }
}

// Whether its own devices have room for all that waits for them.
bool ExclusivePolicy::serves_at_once(const View& view, FunctionId function) const {
  uint32_t free = 0;
  for (uint32_t device = 0; device < holdings_.size(); ++device) {
    const Holding& holding = holdings_[device];
    const bool is_own = holding.owned && !holding.claimed && holding.owner == function;
    if (is_own && view.fleet.devices()[device].has_token()) ++free;
  }
  return free + pools_[function.value].claims >= view.flow(function).pending;
}

bool ExclusivePolicy::claim_unowned(const View& view, FunctionId function) {
  for (uint32_t device = 0; device < holdings_.size(); ++device) {
    if (holdings_[device].owned) continue;
    if (!view.fleet.places().find_on(device, function, view.flow(function)).place) continue;
    claim(view, device, function);
    return true;
  }
  return false;
}

bool ExclusivePolicy::claim_from_largest(const View& view, FunctionId function) {
  // The largest pool, of equals the one that was shrunken least recently; in it a device that does
  // nothing, else the one whose run began first.
  struct Rank {
    uint32_t smallness = 0;
    uint64_t shrunken = 0;
    uint32_t owner = 0;
    bool busy = false;
    Instant since{};
    uint32_t device = 0;
    auto operator<=>(const Rank&) const = default;
  };
  std::optional<Rank> victim;
  for (uint32_t device = 0; device < holdings_.size(); ++device) {
    const Holding& holding = holdings_[device];
    if (!holding.owned || holding.claimed || holding.owner == function) continue;
    if (!could_hold(view, device, function)) continue;
    const Pool& of_owner = pools_[holding.owner.value];
    const bool busy = !view.fleet.devices()[device].has_token();
    if (!busy && !view.fleet.places().find_on(device, function, view.flow(function)).place)
      continue;
    const auto worker = worker_on(view, device);
    const Rank rank{.smallness = ~of_owner.size,
                    .shrunken = of_owner.shrunken,
                    .owner = holding.owner.value,
                    .busy = busy,
                    .since = worker ? view.fleet.sandbox(*worker).since : Instant(),
                    .device = device};
    if (!victim || rank < *victim) victim = rank;
  }
  if (!victim || pools_[victim->owner].size <= pool(function).size) return false;
  pools_[victim->owner].shrunken = ++shrinks_;
  release(view, victim->device);
  claim(view, victim->device, function);
  return true;
}

void ExclusivePolicy::claim(const View& view, uint32_t device, FunctionId function) {
  holdings_[device] = {.owned = true, .claimed = true, .owner = function};
  ++pool(function).size;
  ++pool(function).claims;
  index(view, function);
}

void ExclusivePolicy::release(const View& view, uint32_t device) {
  Holding& holding = holdings_[device];
  const FunctionId owner = holding.owner;
  --pool(owner).size;
  if (holding.claimed) --pool(owner).claims;
  holding = {};
  index(view, owner);
}

// Requests were withdrawn, served elsewhere, or may no longer run beside each other: devices that
// were taken for them and not used yet belong again to who is on them.
void ExclusivePolicy::give_back(const View& view, FunctionId function) {
  const Flow& flow = view.flow(function);
  const uint32_t most = flow.max_concurrency - std::min(flow.max_concurrency, flow.in_flight);
  const uint32_t useful = std::min(flow.pending, most);
  for (uint32_t device = 0; device < holdings_.size(); ++device) {
    if (pool(function).claims <= useful) return;
    if (!holdings_[device].claimed || holdings_[device].owner != function) continue;
    release(view, device);
    const auto worker = worker_on(view, device);
    if (!worker) continue;
    const FunctionId before = view.fleet.sandbox(*worker).function;
    if (!view.flow(before).registered) continue;
    holdings_[device] = {.owned = true, .owner = before};
    ++pool(before).size;
    index(view, before);
  }
}

void ExclusivePolicy::serve_those_without_device(const View& view) {
  passed_over_.clear();
  size_t held = 0;  // by quotas of their tenants: the others are looked at all the same
  const auto is_held = [&](FunctionId function) {
    if (view.hold_of(function) == WaitReason::kNone) return false;
    ++held;
    passed_over_.push_back(function);
    return true;
  };
  while (!without_device_.empty() && passed_over_.size() - held < kLookAhead) {
    const FunctionId function{without_device_.top()};
    if (is_held(function)) {
      without_device_.pop();
      continue;
    }
    if (claim_unowned(view, function) || claim_from_largest(view, function)) continue;
    passed_over_.push_back(function);
    without_device_.pop();
  }
  for (const FunctionId function : passed_over_) index(view, function);
  // A free device goes to a function that could use it.
  const bool any_unowned = std::any_of(holdings_.begin(), holdings_.end(),
                                       [](const Holding& holding) { return !holding.owned; });
  passed_over_.clear();
  held = 0;
  while (any_unowned && !wanting_.empty() && passed_over_.size() - held < kLookAhead) {
    const FunctionId function{wanting_.top()};
    if (is_held(function)) {
      wanting_.pop();
      continue;
    }
    if (!serves_at_once(view, function) && claim_unowned(view, function)) continue;
    passed_over_.push_back(function);
    wanting_.pop();
  }
  for (const FunctionId function : passed_over_) index(view, function);
}

// Whether the device could ever have this function's worker.
bool ExclusivePolicy::could_hold(const View& view, uint32_t device, FunctionId function) const {
  const Device& one = view.fleet.devices()[device];
  return one.healthy && view.flow(function).device_memory <= one.capacity();
}

// The sandbox on the device that is not being stopped.
std::optional<SandboxSlot> ExclusivePolicy::worker_on(const View& view, uint32_t device) const {
  for (const SandboxSlot slot : view.fleet.all()) {
    const Sandbox& sandbox = view.fleet.sandbox(slot);
    if (sandbox.device == device && sandbox.state != SandboxState::kStopping) return slot;
  }
  return std::nullopt;
}

}  // namespace lambent::scheduling
