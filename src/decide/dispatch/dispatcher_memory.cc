// The part of Dispatcher for memory that moves (MemoryRule::kMoveIdle): in for those that run, out
// to make room for them, and in ahead for those whose turn comes soon.
#include <algorithm>

#include "core/base/check.h"
#include "decide/dispatch/device_pool.h"
#include "decide/dispatch/dispatcher.h"

namespace lambent::dispatch {

using scheduling::Device;
using scheduling::MemoryState;
using scheduling::MemoryVictim;
using scheduling::Relief;
using scheduling::Sandbox;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

namespace {

// More would share the link with each other and with those that wait for it.
constexpr unsigned kPrefetchesAtOnce = 2;  // on each device
// How many flows ahead are looked at.
constexpr size_t kForesight = 4;

bool is_moving(const Sandbox& sandbox, MoveDirection direction) {
  return sandbox.memory_state ==
         (direction == MoveDirection::kIn ? MemoryState::kMovingIn : MemoryState::kMovingOut);
}

}  // namespace

void Dispatcher::on(const MemoryMoved& event) {
  const auto slot = gpu_->fleet.find(event.sandbox);
  if (!slot || !is_moving(gpu_->fleet.sandbox(*slot), event.direction) ||
      gpu_->fleet.sandbox(*slot).state == SandboxState::kStopping) {
    ++counters_.ignored_events;
    return;
  }
  DevicePool& device_pool = *gpu_;
  const bool failed_before = device_pool.fleet.sandbox(*slot).move_failed;
  device_pool.fleet.end_move(*slot, event.done, event.left, event.offloaded);
  const Sandbox& sandbox = device_pool.fleet.sandbox(*slot);
  if (event.done) {
    ++(event.direction == MoveDirection::kIn ? counters_.moves_in : counters_.moves_out);
    counters_.moved_bytes += event.moved.count;
  } else {
    ++counters_.failed_moves;
  }
  if (sandbox.state == SandboxState::kBusy) {
    if (sandbox.memory_state == MemoryState::kIn) {
      memory_came(device_pool, *slot);
    } else if (event.direction == MoveDirection::kIn) {
      failed_before ? fail_move(device_pool, *slot) : move_in_failed(device_pool, *slot);
    }
    return;
  }
  device_pool.moves.erase(*slot);
  device_pool.policy->places_changed(view_of(device_pool), sandbox.function, log_.now());
  if (!event.done && event.direction == MoveDirection::kOut) move_out_failed(device_pool, *slot);
}

// ---- Those that run

// It was given an invocation and its memory is not there: the run goes on up to where it needs it.
void Dispatcher::await_memory(DevicePool& device_pool, SandboxSlot slot) {
  // One that is fetched ahead already keeps the time that it has for that.
  if (device_pool.fleet.sandbox(slot).memory_state == MemoryState::kMovingIn) return;
  device_pool.moves.put(slot, log_.now() + options_.move_timeout);
  device_pool.wanting.push_back(slot);
  if (device_pool.fleet.may_move_in(slot)) move_in(device_pool, slot);
}

void Dispatcher::memory_came(DevicePool& device_pool, SandboxSlot slot) {
  std::erase(device_pool.wanting, slot);
  device_pool.moves.erase(slot);
  const InvocationSlot running = device_pool.fleet.sandbox(slot).invocation;
  PendingInvocation& invocation = queues_[running];
  invocation.awaits_memory = false;
  invocation.memory_time = log_.now() - invocation.started;
  time_run(running);
}

void Dispatcher::move_in(DevicePool& device_pool, SandboxSlot slot) {
  device_pool.fleet.begin_move_in(slot);
  std::erase(device_pool.wanting, slot);
  log_.add(MoveMemoryIn{device_pool.fleet.sandbox(slot).id});
  device_pool.policy->places_changed(view_of(device_pool), device_pool.fleet.sandbox(slot).function,
                                     log_.now());
}

void Dispatcher::move_out(DevicePool& device_pool, SandboxSlot slot, MoveDepth depth) {
  device_pool.fleet.begin_move_out(slot, depth == MoveDepth::kContext);
  device_pool.moves.put(slot, log_.now() + options_.move_timeout);
  log_.add(MoveMemoryOut{device_pool.fleet.sandbox(slot).id, depth});
  device_pool.policy->places_changed(view_of(device_pool), device_pool.fleet.sandbox(slot).function,
                                     log_.now());
}

void Dispatcher::move_in_wanting(DevicePool& device_pool) {
  const std::vector<SandboxSlot> wanting = device_pool.wanting;
  for (const SandboxSlot slot : wanting) {
    if (device_pool.fleet.may_move_in(slot)) move_in(device_pool, slot);
  }
}

// ---- Moves that fail

// By the accounting there was room, so something else takes it: one more sandbox leaves the device,
// and when it is gone (Fleet::may_move_in) it is tried once again.
void Dispatcher::move_in_failed(DevicePool& device_pool, SandboxSlot slot) {
  device_pool.wanting.push_back(slot);
  const uint32_t device = device_pool.fleet.sandbox(slot).device;
  const auto victim = memory_victim(view_of(device_pool), *device_pool.policy, device, log_.now());
  if (victim) relieve(device_pool, MemoryVictim{victim->slot, Relief::kEvict});
}

// It keeps its place on the device, unless somebody needs that.
void Dispatcher::move_out_failed(DevicePool& device_pool, SandboxSlot slot) {
  const Device& device = device_pool.fleet.devices()[device_pool.fleet.sandbox(slot).device];
  if (device.memory_short() > Bytes(0) || device.contexts_short()) {
    relieve(device_pool, MemoryVictim{slot, Relief::kEvict});
  }
}

// Its memory did not come, or does not go, in time: a process that cannot be moved is of no use.
void Dispatcher::fail_move(DevicePool& device_pool, SandboxSlot slot) {
  const Sandbox& sandbox = device_pool.fleet.sandbox(slot);
  if (sandbox.state == SandboxState::kBusy) {
    complete(sandbox.invocation, Outcome::kFunctionError,
             Error{ErrorCode::kUnavailable,
                   "the function's memory could not be brought back onto the GPU; try again"},
             "Sandbox.MoveFailed");
    device_pool.fleet.unassign(slot);
  }
  stop_sandbox(device_pool, slot, StopReason::kMoveFailed);
}

void Dispatcher::forget_moves(DevicePool& device_pool, SandboxSlot slot) {
  if (!device_pool.fleet.moves_idle()) return;
  std::erase(device_pool.wanting, slot);
  std::erase(device_pool.fetching, slot);
  device_pool.moves.erase(slot);
}

// ---- What is offloaded

// It is admitted like an invocation: beside those at work, so that idle ones alone have to make
// room. What does not fit so is refused at once, for nobody can say when those at work end, and the
// program can go on without.
void Dispatcher::on(const MemoryWanted& event) {
  const auto found = find_sandbox(event.sandbox);
  const Sandbox* sandbox = found ? &found->device_pool.fleet.sandbox(found->slot) : nullptr;
  if (sandbox == nullptr || sandbox->state == SandboxState::kStopping ||
      sandbox->state == SandboxState::kPlanned || sandbox->fetching > Bytes(0)) {
    ++counters_.ignored_events;
    return;
  }
  DevicePool& device_pool = found->device_pool;
  const Bytes uncounted = std::min(event.bytes, sandbox->offloaded);
  const bool is_counted = uncounted == Bytes(0);
  if (is_counted || !device_pool.fleet.admits_fetch(found->slot, uncounted)) {
    ++(is_counted ? counters_.fetches : counters_.refused_fetches);
    log_.add(GrantMemory{event.sandbox, is_counted ? event.bytes : Bytes(0)});
    return;
  }
  device_pool.fleet.begin_fetch(found->slot, uncounted);
  device_pool.fetching.push_back(found->slot);
  device_pool.moves.put(found->slot, log_.now() + options_.move_timeout);
}

void Dispatcher::grant_fetches(DevicePool& device_pool) {
  const std::vector<SandboxSlot> fetching = device_pool.fetching;
  for (const SandboxSlot slot : fetching) {
    if (device_pool.fleet.may_fetch(slot)) end_fetch(device_pool, slot, true);
  }
}

void Dispatcher::end_fetch(DevicePool& device_pool, SandboxSlot slot, bool granted) {
  const Sandbox& sandbox = device_pool.fleet.sandbox(slot);
  const Bytes bytes = granted ? sandbox.fetching : Bytes(0);
  device_pool.fleet.end_fetch(slot, granted);
  std::erase(device_pool.fetching, slot);
  device_pool.moves.erase(slot);
  ++(granted ? counters_.fetches : counters_.refused_fetches);
  log_.add(GrantMemory{sandbox.id, bytes});
}

// ---- Room

bool Dispatcher::relieve(DevicePool& device_pool, const std::optional<MemoryVictim>& victim) {
  if (!victim) return false;
  switch (victim->relief) {
    case Relief::kMoveOut:
      move_out(device_pool, victim->slot, MoveDepth::kMemory);
      break;
    case Relief::kMoveContextOut:
      move_out(device_pool, victim->slot, MoveDepth::kContext);
      break;
    case Relief::kEvict:
      ++counters_.evictions;
      stop_sandbox(device_pool, victim->slot, StopReason::kEvicted);
  }
  return true;
}

// For what those that were admitted will yet bring: planned sandboxes, and running ones whose
// memory is out; and for what is taken of the device. Who has left says so in an event, at which
// they start and move in.
void Dispatcher::make_room(DevicePool& device_pool) {
  const scheduling::View view = view_of(device_pool);
  for (size_t next = 0; next < device_pool.fleet.unsettled().size(); ++next) {
    const uint32_t i = device_pool.fleet.unsettled()[next];
    const Device& device = device_pool.fleet.devices()[i];
    if (!device.healthy) continue;
    while (device.contexts_short() && relieve(device_pool, context_victim(view, i, log_.now()))) {
    }
    while (device.memory_short() > Bytes(0) &&
           relieve(device_pool, memory_victim(view, *device_pool.policy, i, log_.now()))) {
    }
  }
}

// Where no memory moves, what is taken of a device crowds idle sandboxes out. Whether any was.
bool Dispatcher::make_room_beside_taken(DevicePool& device_pool) {
  bool evicted = false;
  const std::vector<uint32_t> crowded = device_pool.fleet.crowded();  // changes as sandboxes leave
  for (const uint32_t i : crowded) {
    while (const auto victim = device_pool.fleet.crowded_out(i, flows_, log_.now())) {
      evicted = relieve(device_pool, MemoryVictim{*victim, Relief::kEvict});
    }
  }
  return evicted;
}

// ---- Ahead of dispatch

void Dispatcher::prefetch(DevicePool& device_pool) {
  if (!options_.fleet.prefetch || queues_.pending(device_pool.processor) == 0 ||
      device_pool.fleet.resting_outside() == 0)
    return;
  if (draining_) return;
  look_ahead_.clear();
  device_pool.policy->look_ahead(view_of(device_pool), kForesight, look_ahead_);
  for (const FunctionId function : look_ahead_) prefetch_for(device_pool, function);
}

// The sandbox of this flow that is used next, if its memory is out: moved in if there is room, else
// room is made by those that nobody waits for.
void Dispatcher::prefetch_for(DevicePool& device_pool, FunctionId function) {
  SandboxSlot next = scheduling::kNoSandbox;
  for (const SandboxSlot slot : device_pool.fleet.idle_of(function)) {
    const Sandbox& sandbox = device_pool.fleet.sandbox(slot);
    if (!device_pool.fleet.devices()[sandbox.device].healthy) continue;
    if (sandbox.memory_state != MemoryState::kOut) return;  // in, or on its way
    if (next == scheduling::kNoSandbox) next = slot;
  }
  if (next == scheduling::kNoSandbox) return;
  const Sandbox& sandbox = device_pool.fleet.sandbox(next);
  const Device& device = device_pool.fleet.devices()[sandbox.device];
  if (sandbox.move_failed || device.memory_short() > Bytes(0)) return;
  const auto& idle = device_pool.fleet.idle_on(sandbox.device);
  const auto under_way =
      std::count_if(idle.begin(), idle.end(), [&](const scheduling::IdleSandbox& one) {
        return device_pool.fleet.sandbox(one.slot).memory_state == MemoryState::kMovingIn;
      });
  if (under_way >= kPrefetchesAtOnce) return;
  if (device_pool.fleet.may_move_in(next)) {
    ++counters_.prefetches;
    device_pool.moves.put(next, log_.now() + options_.move_timeout);
    move_in(device_pool, next);
    return;
  }
  const Bytes missing = sandbox.needed() - sandbox.counts.on_device;
  const Bytes short_by =
      device.resident + device.promised + missing - device.leaving - device.capacity();
  if (short_by == Bytes(0)) return;  // it is being made
  for (const SandboxSlot slot : unwanted_memory(view_of(device_pool), *device_pool.policy,
                                                sandbox.device, function, short_by, log_.now())) {
    // The budget of the host may end before the last of them.
    if (device_pool.fleet.may_move_out(slot, false))
      move_out(device_pool, slot, MoveDepth::kMemory);
  }
}

}  // namespace lambent::dispatch
