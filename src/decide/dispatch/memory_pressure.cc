#include "decide/dispatch/memory_pressure.h"

#include <algorithm>

#include "decide/scheduling/place_victims.h"

namespace lambent::dispatch {

using scheduling::Device;
using scheduling::MemoryState;
using scheduling::MemoryVictim;
using scheduling::Relief;
using scheduling::Sandbox;
using scheduling::SandboxSlot;

namespace {

// More would share the link with each other and with those that wait for it.
constexpr unsigned kPrefetchesAtOnce = 2;  // on each device
// How many flows ahead are looked at.
constexpr size_t kForesight = 4;

}  // namespace

// ---- Room

bool MemoryPressure::relieve(const std::optional<MemoryVictim>& victim) {
  if (!victim) return false;
  switch (victim->relief) {
    case Relief::kMoveOut:
      pool_.moves().move_out(victim->slot, MoveDepth::kMemory);
      break;
    case Relief::kMoveContextOut:
      pool_.moves().move_out(victim->slot, MoveDepth::kContext);
      break;
    case Relief::kEvict:
      pool_.evict(victim->slot);
  }
  return true;
}

void MemoryPressure::make_room() {
  const scheduling::View view = pool_.scheduler().view();
  const scheduling::Policy& policy = pool_.scheduler().policy();
  for (size_t next = 0; next < pool_.fleet().memory().unsettled().size(); ++next) {
    const uint32_t i = pool_.fleet().memory().unsettled()[next];
    const Device& device = pool_.fleet().devices()[i];
    if (!device.healthy) continue;
    while (device.contexts_short() && relieve(context_victim(view, i, log_.now()))) {
    }
    while (device.memory_short() > Bytes(0) &&
           relieve(memory_victim(view, policy, i, log_.now()))) {
    }
  }
}

void MemoryPressure::move_out_early() {
  if (options_.fleet.memory_rule != scheduling::MemoryRule::kMoveEarly) return;
  const PoolScheduler& scheduler = pool_.scheduler();
  for (uint32_t i = 0; i < pool_.fleet().devices().size(); ++i) {
    if (!pool_.fleet().devices()[i].healthy) continue;
    const auto leaver = early_leaver(scheduler.view(), scheduler.policy(), i, log_.now());
    if (leaver) pool_.moves().move_out(*leaver, MoveDepth::kMemory);
  }
}

bool MemoryPressure::make_room_beside_taken() {
  bool evicted = false;
  // The list changes as sandboxes leave.
  const std::vector<uint32_t> crowded = pool_.fleet().device_table().crowded();
  for (const uint32_t i : crowded) {
    while (const auto victim = crowded_out(pool_.fleet(), i, flows_, log_.now())) {
      pool_.evict(*victim);
      evicted = true;
    }
  }
  return evicted;
}

void MemoryPressure::move_in_failed(SandboxSlot slot) {
  const PoolScheduler& scheduler = pool_.scheduler();
  // Of several devices it is not known which was full. One that leaves may be on more of them.
  std::vector<SandboxSlot> leavers;
  pool_.fleet().sandbox(slot).for_each_device([&](uint32_t index) {
    const bool is_relieved = std::ranges::any_of(
        leavers, [&](SandboxSlot leaver) { return pool_.fleet().sandbox(leaver).is_on(index); });
    if (is_relieved) return;
    const auto victim = memory_victim(scheduler.view(), scheduler.policy(), index, log_.now());
    if (!victim) return;
    leavers.push_back(victim->slot);
    pool_.evict(victim->slot);
  });
}

void MemoryPressure::move_out_failed(SandboxSlot slot) {
  bool is_short = false;
  pool_.fleet().sandbox(slot).for_each_device([&](uint32_t index) {
    const Device& device = pool_.fleet().devices()[index];
    is_short |= device.memory_short() > Bytes(0) || device.contexts_short();
  });
  if (is_short) pool_.evict(slot);
}

// ---- Ahead of dispatch

void MemoryPressure::prefetch() {
  if (!options_.fleet.prefetch || pool_.fleet().memory().resting_outside() == 0) return;
  look_ahead_.clear();
  pool_.scheduler().look_ahead(kForesight, look_ahead_);
  for (const FunctionId function : look_ahead_) prefetch_for(function);
}

// The sandbox of this flow that is used next, if its memory is out: moved in if there is room, else
// room is made by those that no invocation waits for.
void MemoryPressure::prefetch_for(FunctionId function) {
  const SandboxSlot next = next_outside_of(function);
  if (next == scheduling::kNoSandbox) return;
  const Sandbox& sandbox = pool_.fleet().sandbox(next);
  if (sandbox.move_failed) return;
  bool may_all = true;
  sandbox.for_each_device([&](uint32_t index) {
    const Device& device = pool_.fleet().devices()[index];
    may_all = may_all && device.memory_short() == Bytes(0) && may_prefetch_more(index);
  });
  if (!may_all) return;
  if (pool_.fleet().memory().may_move_in(next)) {
    pool_.moves().prefetch(next);
  } else {
    move_out_unwanted(next);
  }
}

// None if one has its memory on a device, or on the way there.
SandboxSlot MemoryPressure::next_outside_of(FunctionId function) const {
  SandboxSlot next = scheduling::kNoSandbox;
  for (const SandboxSlot slot : pool_.fleet().idle().of(function)) {
    const Sandbox& sandbox = pool_.fleet().sandbox(slot);
    if (!pool_.fleet().device_table().are_healthy(sandbox)) continue;
    if (sandbox.memory_state != MemoryState::kOut) return scheduling::kNoSandbox;
    if (next == scheduling::kNoSandbox) next = slot;
  }
  return next;
}

bool MemoryPressure::may_prefetch_more(uint32_t device) const {
  const auto& idle = pool_.fleet().idle().on(device);
  const auto under_way =
      std::count_if(idle.begin(), idle.end(), [&](const scheduling::IdleSandbox& one) {
        return pool_.fleet().sandbox(one.slot).memory_state == MemoryState::kMovingIn;
      });
  return under_way < kPrefetchesAtOnce;
}

// On all of its devices or on none.
void MemoryPressure::move_out_unwanted(SandboxSlot next) {
  const Sandbox& sandbox = pool_.fleet().sandbox(next);
  const Bytes missing = sandbox.needed() - sandbox.counts.on_device;
  const PoolScheduler& scheduler = pool_.scheduler();
  std::vector<SandboxSlot> leavers;
  bool is_enough = true;
  sandbox.for_each_device([&](uint32_t index) {
    const Device& device = pool_.fleet().devices()[index];
    const Bytes short_by =
        device.resident + device.promised + missing - device.leaving - device.capacity();
    Bytes given;  // by those that leave another of its devices
    for (const SandboxSlot leaver : leavers) {
      const Sandbox& one = pool_.fleet().sandbox(leaver);
      if (one.is_on(index)) given += one.counts.on_device - one.left;
    }
    if (short_by <= given) return;  // it is being made
    const std::vector<SandboxSlot> unwanted = unwanted_memory(
        scheduler.view(), scheduler.policy(), index, sandbox.function, short_by, log_.now());
    is_enough = is_enough && !unwanted.empty();
    leavers.insert(leavers.end(), unwanted.begin(), unwanted.end());
  });
  if (!is_enough) return;
  for (const SandboxSlot slot : leavers) {
    // The budget of the host may end before the last of them.
    if (pool_.fleet().memory().may_move_out(slot, false)) {
      pool_.moves().move_out(slot, MoveDepth::kMemory);
    }
  }
}

}  // namespace lambent::dispatch
