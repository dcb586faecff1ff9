#include "decide/scheduling/fleet.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

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
    if (is_healthy_and_full(devices_.back())) ++full_devices_;
  }
  idle_on_.resize(devices_.size());
  has_changed_.resize(devices_.size());
  is_unsettled_.resize(devices_.size());
  for (uint32_t i = 0; i < devices_.size(); ++i) note_changed(i);
  find_largest_healthy();
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

bool Fleet::may_start(SandboxSlot slot) const {
  const Sandbox& sandbox = sandboxes_[slot];
  const Device& device = devices_[sandbox.device];
  if (occupants_total_ >= options_.most_sandboxes) return false;
  if (device.occupants - device.without_context >= device.options.contexts) return false;
  if (moves_idle()) return device.resident + sandbox.memory <= device.capacity();
  return device.occupied + sandbox.memory <= device.capacity();
}

bool Fleet::may_run(SandboxSlot slot) const {
  const Sandbox& sandbox = sandboxes_[slot];
  const Device& device = devices_[sandbox.device];
  return sandbox.holds == Sandbox::Holds::kToken || device.has_token();
}

bool Fleet::is_open(const Device& device) const { return device.healthy && has_cold_room(device); }

// ---- What dispatch did

template <typename Change>
void Fleet::change(uint32_t device_index, Change change_it) {
  Device& device = devices_[device_index];
  const bool was_open = is_open(device);
  const bool was_idle = is_healthy_and_idle(device);
  const bool was_full = is_healthy_and_full(device);
  change_it(device);
  open_devices_ += static_cast<unsigned>(is_open(device)) - static_cast<unsigned>(was_open);
  idle_devices_ +=
      static_cast<unsigned>(is_healthy_and_idle(device)) - static_cast<unsigned>(was_idle);
  full_devices_ +=
      static_cast<unsigned>(is_healthy_and_full(device)) - static_cast<unsigned>(was_full);
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
                             .device = device,
                             .revision = flow.revision,
                             .memory = memory_of(flow, device),
                             .since = now,
                             .last_used = now,
                             .memory_moves = flow.memory_moves,
                             .checkpoints = flow.checkpoints};
  by_id_[id] = slot;
  place_in_all_[slot] = static_cast<uint32_t>(all_.size());
  all_.push_back(slot);
  if (function.value >= functions_.size()) functions_.resize(function.value + 1);
  ++functions_[function.value].starts;
  ++sandboxes_total_;
  ++devices_[device].sandboxes;
  commit(slot, sandboxes_[slot].memory);
  recount(slot);
  hold(slot, has_start_slot(devices_[device], sandboxes_[slot].memory) ? Sandbox::Holds::kStartSlot
                                                                       : Sandbox::Holds::kToken);
  return slot;
}

void Fleet::start(SandboxSlot slot, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  CHECK(sandbox.state == SandboxState::kPlanned, "only a planned sandbox is started");
  become(slot, SandboxState::kStarting, now);
  sandbox.device_losses = devices_[sandbox.device].losses;
  ++occupants_total_;
  ++devices_[sandbox.device].occupants;
  devices_[sandbox.device].occupied += sandbox.memory;
  recount(slot);
}

bool Fleet::run(SandboxSlot slot, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  if (sandbox.state == SandboxState::kIdle) {
    leave_idle(slot);
    commit(slot, sandbox.needed());
  }
  if (sandbox.holds != Sandbox::Holds::kToken) {
    release(slot);
    hold(slot, Sandbox::Holds::kToken);
  }
  become(slot, SandboxState::kBusy, now);
  sandbox.last_used = now;
  ++sandbox.served;
  sandbox.move_failed = false;
  sandbox.prefetched = false;
  recount(slot);
  return sandbox.memory_state == MemoryState::kIn;
}

void Fleet::rest(SandboxSlot slot, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  release(slot);
  if (moves_idle()) commit(slot, Bytes(0));
  become(slot, SandboxState::kIdle, now);
  sandbox.last_used = now;
  enter_idle(slot);
  recount(slot);
}

void Fleet::stop(SandboxSlot slot, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  CHECK(sandbox.state != SandboxState::kStopping, "a sandbox is stopped once");
  CHECK(sandbox.state != SandboxState::kPlanned, "a planned sandbox has no process to stop");
  touch(sandbox.device);
  Device& device = devices_[sandbox.device];
  if (sandbox.state == SandboxState::kIdle) leave_idle(slot);
  commit(slot, Bytes(0));
  --device.sandboxes;
  --sandboxes_total_;
  sandbox.fetching = Bytes(0);
  become(slot, SandboxState::kStopping, now);
  recount(slot);
}

void Fleet::keep_counting(SandboxSlot slot) {
  Sandbox& sandbox = sandboxes_[slot];
  CHECK(sandbox.state == SandboxState::kStopping, "only a stopping sandbox can hang");
  if (std::exchange(sandbox.hangs, true)) return;
  touch(sandbox.device);
  commit(slot, moves_idle() ? sandbox.counts.on_device : sandbox.memory);
  ++devices_[sandbox.device].sandboxes;
  ++sandboxes_total_;
  if (sandbox.holds == Sandbox::Holds::kToken) {
    change(sandbox.device, [](Device& device) { ++device.tokens_hung; });
  }
  recount(slot);
}

void Fleet::remove(SandboxSlot slot) {
  touch(sandboxes_[slot].device);
  if (sandboxes_[slot].state == SandboxState::kPlanned || sandboxes_[slot].hangs) {
    Device& device = devices_[sandboxes_[slot].device];
    --device.sandboxes;
    --sandboxes_total_;
  }
  if (sandboxes_[slot].state == SandboxState::kPlanned) {
    --functions_[sandboxes_[slot].function.value].starts;
  } else {
    if (sandboxes_[slot].state != SandboxState::kStopping) stop(slot, sandboxes_[slot].since);
    Device& device = devices_[sandboxes_[slot].device];
    --device.occupants;
    --occupants_total_;
    device.occupied -= sandboxes_[slot].memory;
  }
  commit(slot, Bytes(0));
  release(slot);
  uncount(slot);
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
  become(slot, SandboxState::kStarting, now);
  Sandbox& sandbox = sandboxes_[slot];
  sandbox.revision = revision;
  sandbox.device_losses = devices_[sandbox.device].losses;
  sandbox.served = 0;
  recount(slot);
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
  find_largest_healthy();
  if (moves_idle()) unsettle(device);
}

void Fleet::set_taken(uint32_t device, Bytes taken) {
  devices_[device].taken = taken;
  note_crowded(device);
  note_changed(device);
  if (moves_idle()) unsettle(device);
}

void Fleet::find_largest_healthy() {
  largest_healthy_ = Bytes(0);
  for (const Device& device : devices_) {
    if (device.healthy) largest_healthy_ = std::max(largest_healthy_, device.options.memory);
  }
}

void Fleet::hold(SandboxSlot slot, Sandbox::Holds what) {
  sandboxes_[slot].holds = what;
  change(sandboxes_[slot].device, [&](Device& device) {
    if (what == Sandbox::Holds::kToken) {
      ++device.tokens_held;
      if (device.concurrency) device.concurrency->dispatched();
    }
    if (what == Sandbox::Holds::kStartSlot) {
      ++device.start_slots_held;
      device.starting += sandboxes_[slot].memory;
    }
  });
}

void Fleet::release(SandboxSlot slot) {
  const Sandbox::Holds what = std::exchange(sandboxes_[slot].holds, Sandbox::Holds::kNothing);
  if (what == Sandbox::Holds::kNothing) return;
  change(sandboxes_[slot].device, [&](Device& device) {
    if (what == Sandbox::Holds::kToken) {
      --device.tokens_held;
      if (sandboxes_[slot].hangs) --device.tokens_hung;
    }
    if (what == Sandbox::Holds::kStartSlot) {
      --device.start_slots_held;
      device.starting -= sandboxes_[slot].memory;
    }
  });
}

void Fleet::commit(SandboxSlot slot, Bytes committed) {
  Sandbox& sandbox = sandboxes_[slot];
  if (sandbox.committed == committed) return;
  Bytes& total = devices_[sandbox.device].committed;
  total = total - sandbox.committed + committed;
  sandbox.committed = committed;
  note_crowded(sandbox.device);
  note_changed(sandbox.device);
}

// Nearly always there is none and nothing to do: this is asked at every start and end of a run.
void Fleet::note_crowded(uint32_t index) {
  const Device& device = devices_[index];
  const bool is_crowded = device.taken > Bytes(0) && device.committed > device.capacity();
  if (!is_crowded && crowded_.empty()) return;
  const auto place = std::lower_bound(crowded_.begin(), crowded_.end(), index);
  const bool was_crowded = place != crowded_.end() && *place == index;
  if (is_crowded && !was_crowded) crowded_.insert(place, index);
  if (!is_crowded && was_crowded) crowded_.erase(place);
}

void Fleet::become(SandboxSlot slot, SandboxState state, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  const bool started = is_start(sandbox.state);
  sandbox.state = state;
  sandbox.since = now;
  if (started == is_start(state)) return;
  touch(sandbox.function);
  uint32_t& starts = functions_[sandbox.function.value].starts;
  started ? --starts : ++starts;
}

void Fleet::enter_idle(SandboxSlot slot) {
  Sandbox& sandbox = sandboxes_[slot];
  Device& device = devices_[sandbox.device];
  device.idle_memory += sandbox.memory;
  ++device.idle;
  ++idle_total_;
  list_on_device(slot);
  touch(sandbox.device);
  touch(sandbox.function);
  OfFunction& function = functions_[sandbox.function.value];
  sandbox.older = function.newest_idle;
  sandbox.newer = kNoSandbox;
  (sandbox.older == kNoSandbox ? function.oldest_idle : sandboxes_[sandbox.older].newer) = slot;
  function.newest_idle = slot;
}

void Fleet::list_on_device(SandboxSlot slot) {
  std::vector<IdleSandbox>& neighbours = idle_on_[sandboxes_[slot].device];
  place_in_idle_on_[slot] = static_cast<uint32_t>(neighbours.size());
  neighbours.push_back({slot, sandboxes_[slot].function});
}

void Fleet::leave_idle(SandboxSlot slot) {
  const Sandbox& sandbox = sandboxes_[slot];
  Device& device = devices_[sandbox.device];
  device.idle_memory -= sandbox.memory;
  --device.idle;
  --idle_total_;
  std::vector<IdleSandbox>& neighbours = idle_on_[sandbox.device];
  neighbours[place_in_idle_on_[slot]] = neighbours.back();
  place_in_idle_on_[neighbours.back().slot] = place_in_idle_on_[slot];
  neighbours.pop_back();
  touch(sandbox.function);
  touch(sandbox.device);
  OfFunction& function = functions_[sandbox.function.value];
  (sandbox.older == kNoSandbox ? function.oldest_idle : sandboxes_[sandbox.older].newer) =
      sandbox.newer;
  (sandbox.newer == kNoSandbox ? function.newest_idle : sandboxes_[sandbox.newer].older) =
      sandbox.older;
}

}  // namespace lambent::scheduling
