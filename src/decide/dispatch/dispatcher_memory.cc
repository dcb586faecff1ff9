// The part of Dispatcher for memory that moves (MemoryRule::kMoveIdle): in for those that run, out
// to make room for them, and in ahead for those whose turn comes soon.
#include <algorithm>

#include "core/base/check.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/dispatch/lane.h"

namespace lambent::dispatch {

using scheduling::Device;
using scheduling::MemoryVictim;
using scheduling::Relief;
using scheduling::Residency;
using scheduling::Sandbox;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

namespace {

// More would share the link with each other and with those that wait for it.
constexpr unsigned kPrefetchesAtOnce = 2;  // on each device
// How many flows ahead are looked at.
constexpr size_t kForesight = 4;

bool is_moving(const Sandbox& sandbox, MoveDirection direction) {
  return sandbox.residency ==
         (direction == MoveDirection::kIn ? Residency::kMovingIn : Residency::kMovingOut);
}

}  // namespace

void Dispatcher::on(const MemoryMoved& event) {
  const auto slot = gpu_->fleet.find(event.sandbox);
  if (!slot || !is_moving(gpu_->fleet.sandbox(*slot), event.direction) ||
      gpu_->fleet.sandbox(*slot).state == SandboxState::kStopping) {
    ++counters_.ignored_events;
    return;
  }
  Lane& lane = *gpu_;
  const bool failed_before = lane.fleet.sandbox(*slot).move_failed;
  lane.fleet.end_move(*slot, event.done, event.left, event.aside);
  const Sandbox& sandbox = lane.fleet.sandbox(*slot);
  if (event.done) {
    ++(event.direction == MoveDirection::kIn ? counters_.moves_in : counters_.moves_out);
    counters_.moved_bytes += event.moved.count;
  } else {
    ++counters_.failed_moves;
  }
  if (sandbox.state == SandboxState::kBusy) {
    if (sandbox.residency == Residency::kIn) {
      memory_came(lane, *slot);
    } else if (event.direction == MoveDirection::kIn) {
      failed_before ? fail_move(lane, *slot) : move_in_failed(lane, *slot);
    }
    return;
  }
  lane.moves.erase(*slot);
  lane.policy->places_changed(view_of(lane), sandbox.function, now_);
  if (!event.done && event.direction == MoveDirection::kOut) move_out_failed(lane, *slot);
}

// ---- Those that run

// It was given an invocation and its memory is not there: the run goes on up to where it needs it.
void Dispatcher::await_memory(Lane& lane, SandboxSlot slot) {
  // One that is fetched ahead already keeps the time that it has for that.
  if (lane.fleet.sandbox(slot).residency == Residency::kMovingIn) return;
  lane.moves.put(slot, now_ + options_.move_timeout);
  lane.wanting.push_back(slot);
  if (lane.fleet.may_move_in(slot)) move_in(lane, slot);
}

void Dispatcher::memory_came(Lane& lane, SandboxSlot slot) {
  std::erase(lane.wanting, slot);
  lane.moves.erase(slot);
  const InvocationSlot running = lane.fleet.sandbox(slot).invocation;
  PendingInvocation& invocation = invocations_[running];
  invocation.awaits_memory = false;
  invocation.memory_time = now_ - invocation.started;
  time_run(running);
}

void Dispatcher::move_in(Lane& lane, SandboxSlot slot) {
  lane.fleet.begin_move_in(slot);
  std::erase(lane.wanting, slot);
  emit(MoveMemoryIn{lane.fleet.sandbox(slot).id});
  lane.policy->places_changed(view_of(lane), lane.fleet.sandbox(slot).function, now_);
}

void Dispatcher::move_out(Lane& lane, SandboxSlot slot, MoveDepth depth) {
  lane.fleet.begin_move_out(slot, depth == MoveDepth::kContext);
  lane.moves.put(slot, now_ + options_.move_timeout);
  emit(MoveMemoryOut{lane.fleet.sandbox(slot).id, depth});
  lane.policy->places_changed(view_of(lane), lane.fleet.sandbox(slot).function, now_);
}

void Dispatcher::move_in_wanting(Lane& lane) {
  const std::vector<SandboxSlot> wanting = lane.wanting;
  for (const SandboxSlot slot : wanting) {
    if (lane.fleet.may_move_in(slot)) move_in(lane, slot);
  }
}

// ---- Moves that fail

// By the books there was room, so something else takes it: one more sandbox leaves the device, and
// when it is gone (Fleet::may_move_in) it is tried once again.
void Dispatcher::move_in_failed(Lane& lane, SandboxSlot slot) {
  lane.wanting.push_back(slot);
  const uint32_t device = lane.fleet.sandbox(slot).device;
  const auto victim = memory_victim(view_of(lane), *lane.policy, device, now_);
  if (victim) relieve(lane, MemoryVictim{victim->slot, Relief::kEvict});
}

// It keeps its place on the device, unless somebody needs that.
void Dispatcher::move_out_failed(Lane& lane, SandboxSlot slot) {
  const Device& device = lane.fleet.devices()[lane.fleet.sandbox(slot).device];
  if (device.memory_short() > Bytes(0) || device.contexts_short()) {
    relieve(lane, MemoryVictim{slot, Relief::kEvict});
  }
}

// Its memory did not come, or does not go, in time: a process that cannot be moved is of no use.
void Dispatcher::fail_move(Lane& lane, SandboxSlot slot) {
  const Sandbox& sandbox = lane.fleet.sandbox(slot);
  if (sandbox.state == SandboxState::kBusy) {
    complete(sandbox.invocation, Outcome::kFunctionError,
             Error{ErrorCode::kUnavailable,
                   "the function's memory could not be brought back onto the GPU; try again"},
             "Sandbox.MoveFailed");
    lane.fleet.unassign(slot);
  }
  stop_sandbox(lane, slot, StopReason::kMoveFailed);
}

void Dispatcher::forget_moves(Lane& lane, SandboxSlot slot) {
  if (!lane.fleet.moves_idle()) return;
  std::erase(lane.wanting, slot);
  std::erase(lane.fetching, slot);
  lane.moves.erase(slot);
}

// ---- What lies aside

// It is admitted like an invocation: beside those at work, so that idle ones alone have to make
// room. What does not fit so is refused at once, for nobody can say when those at work end, and the
// program can go on without.
void Dispatcher::on(const MemoryWanted& event) {
  const auto found = find_sandbox(event.sandbox);
  const Sandbox* sandbox = found ? &found->lane.fleet.sandbox(found->slot) : nullptr;
  if (sandbox == nullptr || sandbox->state == SandboxState::kStopping ||
      sandbox->state == SandboxState::kPlanned || sandbox->fetching > Bytes(0)) {
    ++counters_.ignored_events;
    return;
  }
  Lane& lane = found->lane;
  const Bytes uncounted = std::min(event.bytes, sandbox->aside);
  const bool is_counted = uncounted == Bytes(0);
  if (is_counted || !lane.fleet.admits_fetch(found->slot, uncounted)) {
    ++(is_counted ? counters_.fetches : counters_.refused_fetches);
    emit(GrantMemory{event.sandbox, is_counted ? event.bytes : Bytes(0)});
    return;
  }
  lane.fleet.begin_fetch(found->slot, uncounted);
  lane.fetching.push_back(found->slot);
  lane.moves.put(found->slot, now_ + options_.move_timeout);
}

void Dispatcher::grant_fetches(Lane& lane) {
  const std::vector<SandboxSlot> fetching = lane.fetching;
  for (const SandboxSlot slot : fetching) {
    if (lane.fleet.may_fetch(slot)) end_fetch(lane, slot, true);
  }
}

void Dispatcher::end_fetch(Lane& lane, SandboxSlot slot, bool granted) {
  const Sandbox& sandbox = lane.fleet.sandbox(slot);
  const Bytes bytes = granted ? sandbox.fetching : Bytes(0);
  lane.fleet.end_fetch(slot, granted);
  std::erase(lane.fetching, slot);
  lane.moves.erase(slot);
  ++(granted ? counters_.fetches : counters_.refused_fetches);
  emit(GrantMemory{sandbox.id, bytes});
}

// ---- Room

bool Dispatcher::relieve(Lane& lane, const std::optional<MemoryVictim>& victim) {
  if (!victim) return false;
  switch (victim->relief) {
    case Relief::kMoveOut:
      move_out(lane, victim->slot, MoveDepth::kMemory);
      break;
    case Relief::kMoveContextOut:
      move_out(lane, victim->slot, MoveDepth::kContext);
      break;
    case Relief::kEvict:
      ++counters_.evictions;
      stop_sandbox(lane, victim->slot, StopReason::kEvicted);
  }
  return true;
}

// For what those that were admitted will yet bring: planned sandboxes, and running ones whose
// memory is out; and for what is taken of the device. Who has left says so in an event, at which
// they start and move in.
void Dispatcher::make_room(Lane& lane) {
  const scheduling::View view = view_of(lane);
  for (size_t next = 0; next < lane.fleet.unsettled().size(); ++next) {
    const uint32_t i = lane.fleet.unsettled()[next];
    const Device& device = lane.fleet.devices()[i];
    if (!device.healthy) continue;
    while (device.contexts_short() && relieve(lane, context_victim(view, i, now_))) {
    }
    while (device.memory_short() > Bytes(0) &&
           relieve(lane, memory_victim(view, *lane.policy, i, now_))) {
    }
  }
}

// Where no memory moves, what is taken of a device crowds idle sandboxes out. Whether any was.
bool Dispatcher::make_room_beside_taken(Lane& lane) {
  bool evicted = false;
  const std::vector<uint32_t> crowded = lane.fleet.crowded();  // changes as sandboxes leave
  for (const uint32_t i : crowded) {
    while (const auto victim = lane.fleet.crowded_out(i, flows_, now_)) {
      evicted = relieve(lane, MemoryVictim{*victim, Relief::kEvict});
    }
  }
  return evicted;
}

// ---- Ahead of dispatch

void Dispatcher::prefetch(Lane& lane) {
  if (!options_.fleet.prefetch || lane.pending == 0 || lane.fleet.resting_outside() == 0) return;
  if (draining_) return;
  foreseen_.clear();
  lane.policy->foresee(view_of(lane), kForesight, foreseen_);
  for (const FunctionId function : foreseen_) prefetch_for(lane, function);
}

// The sandbox of this flow that is used next, if its memory is out: moved in if there is room, else
// room is made by those that nobody waits for.
void Dispatcher::prefetch_for(Lane& lane, FunctionId function) {
  SandboxSlot next = scheduling::kNoSandbox;
  for (const SandboxSlot slot : lane.fleet.idle_of(function)) {
    const Sandbox& sandbox = lane.fleet.sandbox(slot);
    if (!lane.fleet.devices()[sandbox.device].healthy) continue;
    if (sandbox.residency != Residency::kOut) return;  // in, or on its way
    if (next == scheduling::kNoSandbox) next = slot;
  }
  if (next == scheduling::kNoSandbox) return;
  const Sandbox& sandbox = lane.fleet.sandbox(next);
  const Device& device = lane.fleet.devices()[sandbox.device];
  if (sandbox.move_failed || device.memory_short() > Bytes(0)) return;
  const auto& idle = lane.fleet.idle_on(sandbox.device);
  const auto under_way =
      std::count_if(idle.begin(), idle.end(), [&](const scheduling::IdleSandbox& one) {
        return lane.fleet.sandbox(one.slot).residency == Residency::kMovingIn;
      });
  if (under_way >= kPrefetchesAtOnce) return;
  if (lane.fleet.may_move_in(next)) {
    ++counters_.prefetches;
    lane.moves.put(next, now_ + options_.move_timeout);
    move_in(lane, next);
    return;
  }
  const Bytes missing = sandbox.needed() - sandbox.counts.on_device;
  const Bytes short_by =
      device.resident + device.promised + missing - device.leaving - device.capacity();
  if (short_by == Bytes(0)) return;  // it is being made
  for (const SandboxSlot slot :
       unwanted_memory(view_of(lane), *lane.policy, sandbox.device, function, short_by, now_)) {
    // The budget of the host may end before the last of them.
    if (lane.fleet.may_move_out(slot, false)) move_out(lane, slot, MoveDepth::kMemory);
  }
}

}  // namespace lambent::dispatch
