#include "scheduling/fleet.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lambent::scheduling {

std::string_view name_of(SandboxState state) {
  switch (state) {
    case SandboxState::kPlanned:
      return "planned";
    case SandboxState::kStarting:
      return "starting";
    case SandboxState::kIdle:
      return "idle";
    case SandboxState::kBusy:
      return "busy";
    case SandboxState::kStopping:
      return "stopping";
  }
  return "stopping";
}

Fleet::Fleet(FleetOptions options) : options_(std::move(options)) {
  for (const DeviceOptions& device : options_.devices) {
    devices_.push_back(Device{.options = device});
    if (device.by_utilisation) devices_.back().concurrency.emplace(*device.by_utilisation);
    if (is_open(devices_.back())) ++open_devices_;
    if (is_healthy_and_idle(devices_.back())) ++idle_devices_;
  }
  idle_on_.resize(devices_.size());
  has_changed_.resize(devices_.size());
  for (uint32_t i = 0; i < devices_.size(); ++i) note_changed(i);
}

// ---- Questions

std::optional<SandboxSlot> Fleet::find(SandboxId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint32_t> Fleet::device_index(DeviceId id) const {
  // They mostly count from 1 and stand in this order.
  const uint32_t guess = id.value - 1;
  if (guess < devices_.size() && devices_[guess].options.id == id) return guess;
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].options.id == id) return i;
  }
  return std::nullopt;
}

bool Fleet::could_ever_fit(Bytes memory) const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](const Device& device) { return memory <= device.options.memory; });
}

std::vector<SandboxSlot> Fleet::idle_of(FunctionId function) const {
  std::vector<SandboxSlot> idle;
  for (SandboxSlot slot = newest_idle_of(function); slot != kNoSandbox;
       slot = sandboxes_[slot].older) {
    idle.push_back(slot);
  }
  return idle;
}

SandboxSlot Fleet::newest_idle_of(FunctionId function) const {
  return function.value < newest_idle_.size() ? newest_idle_[function.value] : kNoSandbox;
}

PlaceOrReason Fleet::find_place(FunctionId function, const Flow& flow,
                                bool idle_devices_only) const {
  bool waits_for_warm = false;
  WaitReason reason = WaitReason::kNoToken;
  for (SandboxSlot slot = newest_idle_of(function); slot != kNoSandbox;
       slot = sandboxes_[slot].older) {
    const Sandbox& sandbox = sandboxes_[slot];
    const Device& device = devices_[sandbox.device];
    if (!device.healthy) continue;
    waits_for_warm = true;
    if (idle_devices_only && !device.is_idle()) continue;
    if (!device.has_token()) continue;
    if (options_.memory_rule == MemoryRule::kRunningOnly && !memory_fits(device, sandbox.memory)) {
      reason = WaitReason::kNoMemory;
      continue;
    }
    return {Place{sandbox.device, slot}};
  }
  if (waits_for_warm) {
    // Its warm sandboxes are on busy devices: only an idle one is worth a cold start.
    PlaceOrReason elsewhere = find_cold_place(flow.device_memory, true);
    if (!elsewhere.place) elsewhere.reason = reason;
    return elsewhere;
  }
  return find_cold_place(flow.device_memory, idle_devices_only);
}

PlaceOrReason Fleet::find_cold_place(Bytes memory, bool idle_devices_only) const {
  if (sandboxes_total_ - idle_total_ >= options_.most_sandboxes) {
    return {std::nullopt, WaitReason::kNoSandbox};
  }
  if (idle_devices_only && idle_devices_ == 0) return {std::nullopt, WaitReason::kNoDevice};
  FailedSearch& failed = failed_searches_[idle_devices_only ? 1 : 0];
  if (failed.valid && memory >= failed.memory) return {std::nullopt, failed.reason};
  renew_cold_order();
  if (!cold_order_.empty()) {
    const Device& first = devices_[cold_order_.top()];
    if (takes(first, memory) && (!idle_devices_only || first.is_idle())) {
      return {Place{cold_order_.top(), kNoSandbox}};
    }
  }
  const PlaceOrReason found = scan_for_cold_place(memory, idle_devices_only);
  if (!found.place) failed = {true, memory, found.reason};
  return found;
}

void Fleet::note_changed(uint32_t device) {
  forget_failed_searches();
  if (has_changed_[device]) return;
  has_changed_[device] = 1;
  changed_.push_back(device);
}

void Fleet::renew_cold_order() const {
  for (const uint32_t i : changed_) {
    has_changed_[i] = 0;
    const Device& device = devices_[i];
    if (device.healthy && has_cold_room(device)) {
      cold_order_.put(i, {load_of(device), ~(device.options.memory - device.committed).count});
    } else {
      cold_order_.erase(i);
    }
  }
  changed_.clear();
}

// Whether a device with room for a cold start has sandboxes and memory left for this one.
bool Fleet::takes(const Device& device, Bytes memory) const {
  return device.sandboxes - device.idle < device.options.contexts && memory_fits(device, memory);
}

PlaceOrReason Fleet::scan_for_cold_place(Bytes memory, bool idle_devices_only) const {
  // The least loaded device; of equals the one with most memory that is not at work.
  const Device* best = nullptr;
  WaitReason reason = WaitReason::kNoDevice;
  for (const Device& device : devices_) {
    if (!device.healthy || (idle_devices_only && !device.is_idle())) continue;
    if (!has_cold_room(device)) {
      reason = WaitReason::kNoToken;
      continue;
    }
    if (device.sandboxes - device.idle >= device.options.contexts) {
      reason = WaitReason::kNoSandbox;
      continue;
    }
    if (!memory_fits(device, memory)) {
      reason = WaitReason::kNoMemory;
      continue;
    }
    const auto spare = [](const Device& d) { return d.options.memory - d.committed; };
    if (best == nullptr || load_of(device) < load_of(*best) ||
        (load_of(device) == load_of(*best) && spare(device) > spare(*best))) {
      best = &device;
    }
  }
  if (best == nullptr) return {std::nullopt, reason};
  return {Place{static_cast<uint32_t>(best - devices_.data()), kNoSandbox}};
}

std::vector<SandboxSlot> Fleet::victims_for(const Place& place, Bytes memory, const Flows& flows,
                                            Instant now) const {
  std::vector<SandboxSlot> victims;
  const Device& device = devices_[place.device];
  Bytes committed = device.committed;
  unsigned on_device = device.sandboxes;
  unsigned total = sandboxes_total_;
  const auto crowded = [&] {
    const bool memory_short = options_.memory_rule == MemoryRule::kEverySandbox &&
                              committed + memory > device.options.memory;
    return memory_short || on_device >= device.options.contexts;
  };
  std::vector<EvictionCandidate> candidates;
  while (crowded() || total >= options_.most_sandboxes) {
    candidates.clear();
    // A crowded device can only be helped by its own sandboxes.
    if (crowded()) {
      add_candidates_of_device(place.device, flows, victims, candidates);
    } else {
      add_candidates_of_functions(flows, victims, candidates);
    }
    const SandboxSlot victim = choose_victim(options_.eviction, candidates, now);
    victims.push_back(victim);
    --total;
    if (sandboxes_[victim].device == place.device) {
      --on_device;
      committed -= sandboxes_[victim].memory;
    }
  }
  return victims;
}

void Fleet::add_candidates_of_device(uint32_t device, const Flows& flows,
                                     const std::vector<SandboxSlot>& except,
                                     std::vector<EvictionCandidate>& candidates) const {
  for (const SandboxSlot slot : idle_on_[device]) {
    if (std::find(except.begin(), except.end(), slot) != except.end()) continue;
    const Sandbox& sandbox = sandboxes_[slot];
    candidates.push_back({slot, sandbox.last_used, &flows[sandbox.function.value]});
  }
}

// Of a function's sandboxes both rules give up the least recently used one first, and its list has
// them in this order; of those used last at the same instant, any may come first.
void Fleet::add_candidates_of_functions(const Flows& flows, const std::vector<SandboxSlot>& except,
                                        std::vector<EvictionCandidate>& candidates) const {
  for (uint32_t function = 0; function < oldest_idle_.size(); ++function) {
    std::optional<Instant> least;
    for (SandboxSlot slot = oldest_idle_[function]; slot != kNoSandbox;
         slot = sandboxes_[slot].newer) {
      if (std::find(except.begin(), except.end(), slot) != except.end()) continue;
      const Instant last_used = sandboxes_[slot].last_used;
      if (least && *least != last_used) break;
      least = last_used;
      candidates.push_back({slot, last_used, &flows[function]});
    }
  }
}

bool Fleet::may_start(SandboxSlot slot) const {
  const Sandbox& sandbox = sandboxes_[slot];
  const Device& device = devices_[sandbox.device];
  if (occupants_total_ >= options_.most_sandboxes) return false;
  if (device.occupants >= device.options.contexts) return false;
  // Where idle sandboxes are moved off, only those at work hold memory, and they were admitted.
  if (options_.memory_rule == MemoryRule::kRunningOnly) return true;
  return device.occupied + sandbox.memory <= device.options.memory;
}

bool Fleet::may_run(SandboxSlot slot) const {
  const Sandbox& sandbox = sandboxes_[slot];
  const Device& device = devices_[sandbox.device];
  return sandbox.holds == Sandbox::Holds::kToken || device.has_token();
}

bool Fleet::is_open(const Device& device) const {
  return device.healthy && (device.has_token() || has_cold_room(device));
}

bool Fleet::has_cold_room(const Device& device) const {
  if (options_.starts_outside_tokens > 0) {
    return device.start_slots_held < options_.starts_outside_tokens;
  }
  return device.has_token();
}

bool Fleet::memory_fits(const Device& device, Bytes memory) const {
  // Idle sandboxes can be evicted, so what they hold counts as free.
  const Bytes evictable =
      options_.memory_rule == MemoryRule::kEverySandbox ? device.idle_memory : Bytes(0);
  return device.committed - evictable + memory <= device.options.memory;
}

// ---- What dispatch did

template <typename Change>
void Fleet::change(uint32_t device_index, Change change_it) {
  Device& device = devices_[device_index];
  const bool was_open = is_open(device);
  const bool was_idle = is_healthy_and_idle(device);
  change_it(device);
  open_devices_ += static_cast<unsigned>(is_open(device)) - static_cast<unsigned>(was_open);
  idle_devices_ +=
      static_cast<unsigned>(is_healthy_and_idle(device)) - static_cast<unsigned>(was_idle);
  note_changed(device_index);
}

SandboxSlot Fleet::plan(SandboxId id, FunctionId function, const Flow& flow, uint32_t device,
                        Instant now) {
  SandboxSlot slot = static_cast<SandboxSlot>(sandboxes_.size());
  if (free_slots_.empty()) {
    sandboxes_.emplace_back();
    place_in_all_.push_back(0);
    place_in_idle_on_.push_back(0);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  sandboxes_[slot] = Sandbox{.id = id,
                             .function = function,
                             .revision = flow.revision,
                             .device = device,
                             .memory = flow.device_memory,
                             .since = now,
                             .last_used = now};
  by_id_[id] = slot;
  place_in_all_[slot] = static_cast<uint32_t>(all_.size());
  all_.push_back(slot);
  ++sandboxes_total_;
  ++devices_[device].sandboxes;
  commit(slot, true);
  hold(slot,
       options_.starts_outside_tokens > 0 ? Sandbox::Holds::kStartSlot : Sandbox::Holds::kToken);
  return slot;
}

void Fleet::start(SandboxSlot slot, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  CHECK(sandbox.state == SandboxState::kPlanned, "only a planned sandbox is started");
  sandbox.state = SandboxState::kStarting;
  sandbox.since = now;
  sandbox.device_losses = devices_[sandbox.device].losses;
  ++occupants_total_;
  ++devices_[sandbox.device].occupants;
  devices_[sandbox.device].occupied += sandbox.memory;
  make_resident(slot);
}

bool Fleet::run(SandboxSlot slot, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  if (sandbox.state == SandboxState::kIdle) {
    leave_idle(slot);
    commit(slot, true);
  }
  if (sandbox.holds != Sandbox::Holds::kToken) {
    release(slot);
    hold(slot, Sandbox::Holds::kToken);
  }
  sandbox.state = SandboxState::kBusy;
  sandbox.since = now;
  sandbox.last_used = now;
  ++sandbox.served;
  const bool moved = options_.memory_rule == MemoryRule::kRunningOnly && !sandbox.resident;
  make_resident(slot);
  return moved;
}

void Fleet::rest(SandboxSlot slot, Instant now, bool moves_off) {
  Sandbox& sandbox = sandboxes_[slot];
  release(slot);
  if (options_.memory_rule == MemoryRule::kRunningOnly) commit(slot, false);
  sandbox.state = SandboxState::kIdle;
  sandbox.since = now;
  sandbox.last_used = now;
  enter_idle(slot);
  if (moves_off) move_off(slot);
}

void Fleet::stop(SandboxSlot slot, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  CHECK(sandbox.state != SandboxState::kStopping, "a sandbox is stopped once");
  CHECK(sandbox.state != SandboxState::kPlanned, "a planned sandbox has no process to stop");
  forget_failed_searches();
  Device& device = devices_[sandbox.device];
  if (sandbox.state == SandboxState::kIdle) leave_idle(slot);
  if (options_.memory_rule == MemoryRule::kEverySandbox) commit(slot, false);
  --device.sandboxes;
  --sandboxes_total_;
  sandbox.state = SandboxState::kStopping;
  sandbox.since = now;
}

void Fleet::keep_counting(SandboxSlot slot) {
  Sandbox& sandbox = sandboxes_[slot];
  CHECK(sandbox.state == SandboxState::kStopping, "only a stopping sandbox can hang");
  if (std::exchange(sandbox.hangs, true)) return;
  forget_failed_searches();
  if (options_.memory_rule == MemoryRule::kEverySandbox) commit(slot, true);
  ++devices_[sandbox.device].sandboxes;
  ++sandboxes_total_;
}

void Fleet::remove(SandboxSlot slot) {
  forget_failed_searches();
  if (sandboxes_[slot].state == SandboxState::kPlanned || sandboxes_[slot].hangs) {
    Device& device = devices_[sandboxes_[slot].device];
    --device.sandboxes;
    --sandboxes_total_;
  }
  if (sandboxes_[slot].state != SandboxState::kPlanned) {
    if (sandboxes_[slot].state != SandboxState::kStopping) stop(slot, sandboxes_[slot].since);
    Device& device = devices_[sandboxes_[slot].device];
    --device.occupants;
    --occupants_total_;
    device.occupied -= sandboxes_[slot].memory;
  }
  commit(slot, false);
  release(slot);
  move_off(slot);
  by_id_.erase(sandboxes_[slot].id);
  const SandboxSlot last = all_.back();
  all_[place_in_all_[slot]] = last;
  place_in_all_[last] = place_in_all_[slot];
  all_.pop_back();
  free_slots_.push_back(slot);
}

void Fleet::replace_id(SandboxSlot slot, SandboxId id, Instant now) {
  by_id_.erase(sandboxes_[slot].id);
  by_id_[id] = slot;
  sandboxes_[slot].id = id;
  sandboxes_[slot].since = now;
}

void Fleet::restart(SandboxSlot slot, SandboxId id, uint64_t revision, Instant now) {
  replace_id(slot, id, now);
  Sandbox& sandbox = sandboxes_[slot];
  sandbox.state = SandboxState::kStarting;
  sandbox.revision = revision;
  sandbox.device_losses = devices_[sandbox.device].losses;
  sandbox.served = 0;
}

void Fleet::assign(SandboxSlot slot, uint32_t invocation) {
  sandboxes_[slot].invocation = invocation;
  sandboxes_[slot].has_invocation = true;
}

void Fleet::unassign(SandboxSlot slot) { sandboxes_[slot].has_invocation = false; }

void Fleet::set_reading(uint32_t device, double utilisation, bool healthy, bool lost) {
  change(device, [&](Device& d) {
    d.lost = lost;
    d.utilisation = utilisation;
    if (d.concurrency) d.concurrency->reading(utilisation);
    d.healthy = healthy;
  });
}

void Fleet::hold(SandboxSlot slot, Sandbox::Holds what) {
  sandboxes_[slot].holds = what;
  change(sandboxes_[slot].device, [&](Device& device) {
    if (what == Sandbox::Holds::kToken) {
      ++device.tokens_held;
      if (device.concurrency) device.concurrency->dispatched();
    }
    if (what == Sandbox::Holds::kStartSlot) ++device.start_slots_held;
  });
}

void Fleet::release(SandboxSlot slot) {
  const Sandbox::Holds what = std::exchange(sandboxes_[slot].holds, Sandbox::Holds::kNothing);
  if (what == Sandbox::Holds::kNothing) return;
  change(sandboxes_[slot].device, [&](Device& device) {
    if (what == Sandbox::Holds::kToken) --device.tokens_held;
    if (what == Sandbox::Holds::kStartSlot) --device.start_slots_held;
  });
}

void Fleet::commit(SandboxSlot slot, bool committed) {
  Sandbox& sandbox = sandboxes_[slot];
  if (sandbox.committed == committed) return;
  sandbox.committed = committed;
  Bytes& total = devices_[sandbox.device].committed;
  total = committed ? total + sandbox.memory : total - sandbox.memory;
  note_changed(sandbox.device);
}

void Fleet::enter_idle(SandboxSlot slot) {
  Sandbox& sandbox = sandboxes_[slot];
  Device& device = devices_[sandbox.device];
  device.idle_memory += sandbox.memory;
  ++device.idle;
  ++idle_total_;
  list_on_device(slot);
  forget_failed_searches();
  const uint32_t function = sandbox.function.value;
  if (function >= newest_idle_.size()) {
    newest_idle_.resize(function + 1, kNoSandbox);
    oldest_idle_.resize(function + 1, kNoSandbox);
  }
  sandbox.older = newest_idle_[function];
  sandbox.newer = kNoSandbox;
  (sandbox.older == kNoSandbox ? oldest_idle_[function] : sandboxes_[sandbox.older].newer) = slot;
  newest_idle_[function] = slot;
}

void Fleet::list_on_device(SandboxSlot slot) {
  std::vector<SandboxSlot>& neighbours = idle_on_[sandboxes_[slot].device];
  place_in_idle_on_[slot] = static_cast<uint32_t>(neighbours.size());
  neighbours.push_back(slot);
}

void Fleet::leave_idle(SandboxSlot slot) {
  const Sandbox& sandbox = sandboxes_[slot];
  Device& device = devices_[sandbox.device];
  device.idle_memory -= sandbox.memory;
  --device.idle;
  --idle_total_;
  std::vector<SandboxSlot>& neighbours = idle_on_[sandbox.device];
  neighbours[place_in_idle_on_[slot]] = neighbours.back();
  place_in_idle_on_[neighbours.back()] = place_in_idle_on_[slot];
  neighbours.pop_back();
  forget_failed_searches();
  (sandbox.older == kNoSandbox ? oldest_idle_[sandbox.function.value]
                               : sandboxes_[sandbox.older].newer) = sandbox.newer;
  (sandbox.newer == kNoSandbox ? newest_idle_[sandbox.function.value]
                               : sandboxes_[sandbox.newer].older) = sandbox.older;
}

void Fleet::make_resident(SandboxSlot slot) {
  Sandbox& sandbox = sandboxes_[slot];
  if (options_.memory_rule != MemoryRule::kRunningOnly || sandbox.resident) return;
  Device& device = devices_[sandbox.device];
  // Idle sandboxes make room, the least recently used first.
  while (device.resident + sandbox.memory > device.options.memory) {
    SandboxSlot oldest = kNoSandbox;
    for (const SandboxSlot other : all_) {
      const Sandbox& s = sandboxes_[other];
      if (s.device != sandbox.device || s.committed || !s.resident) continue;
      if (oldest == kNoSandbox || s.last_used < sandboxes_[oldest].last_used) oldest = other;
    }
    if (oldest == kNoSandbox) break;
    move_off(oldest);
  }
  sandbox.resident = true;
  device.resident += sandbox.memory;
}

void Fleet::move_off(SandboxSlot slot) {
  Sandbox& sandbox = sandboxes_[slot];
  if (!sandbox.resident) return;
  sandbox.resident = false;
  devices_[sandbox.device].resident -= sandbox.memory;
}

}  // namespace lambent::scheduling
