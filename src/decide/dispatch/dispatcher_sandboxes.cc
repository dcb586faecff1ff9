// The part of Dispatcher that follows sandboxes: started, ready, at rest, stopped, gone.
#include <algorithm>
#include <cstdio>

#include "core/base/check.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/dispatch/lane.h"

namespace lambent::dispatch {

using scheduling::Sandbox;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

void Dispatcher::on(const SandboxReady& event) {
  const auto found = find_sandbox(event.sandbox);
  if (!found || found->lane.fleet.sandbox(found->slot).state != SandboxState::kStarting) {
    ++counters_.ignored_events;
    return;
  }
  Lane& lane = found->lane;
  const Sandbox& sandbox = lane.fleet.sandbox(found->slot);
  if (std::find(lane.ready.begin(), lane.ready.end(), found->slot) != lane.ready.end()) {
    ++counters_.ignored_events;
    return;
  }
  CHECK(sandbox.has_invocation, "a sandbox is started for an invocation");
  lane.deadlines.erase(found->slot);
  PendingInvocation& invocation = invocations_[sandbox.invocation];
  // The sandbox measured its own init; the rest since the dispatch went into making it, a failed
  // first try and waiting for the room of others included.
  invocation.init_time = std::min(event.init_time, now_ - sandbox.since);
  invocation.sandbox_time = now_ - invocation.dispatched - invocation.init_time;
  scheduling::Flow& flow = flows_[sandbox.function.value];
  const bool uses_gpu = flow.device_memory.count > 0;
  if (uses_gpu || &lane == host_.get()) {
    (uses_gpu && &lane == host_.get() ? flow.host_cold_start : flow.cold_start)
        .learn(now_ - sandbox.since);
  }
  lane.policy->places_changed(view_of(lane), sandbox.function, now_);
  if (lane.fleet.may_run(found->slot)) {
    run(lane, found->slot, sandbox.invocation);
  } else {
    if (invocation.wait_reason == scheduling::WaitReason::kNone) {
      invocation.wait_reason = scheduling::WaitReason::kNoToken;
    }
    lane.ready.push_back(found->slot);
  }
}

void Dispatcher::on(const SandboxExited& event) {
  const auto found = find_sandbox(event.sandbox);
  if (!found || found->lane.fleet.sandbox(found->slot).state == SandboxState::kPlanned) {
    ++counters_.ignored_events;
    return;
  }
  Lane& lane = found->lane;
  const Sandbox& sandbox = lane.fleet.sandbox(found->slot);
  if (!sandbox.has_invocation) {
    remove_sandbox(lane, found->slot);
    return;
  }
  if (sandbox.state == SandboxState::kStarting) {
    start_failed(lane, found->slot, event);
    return;
  }
  if (event.undelivered && sandbox.state == SandboxState::kBusy && restart(lane, found->slot))
    return;
  const InvocationSlot invocation = sandbox.invocation;
  const PendingInvocation& run = invocations_[invocation];
  // A variant that fails at once is not a fast one.
  if (!run.awaits_memory && !run.is_cpu_variant()) {
    learn_run(run, now_ - run.started - run.memory_time);
  }
  note_host_failure(run);
  complete(invocation, Outcome::kFunctionError, event.error, event.error_type);
  remove_sandbox(lane, found->slot);
}

// Starts a new sandbox in the place, and with the token, of one that ended before it took up its
// invocation. Not again and again: false once the invocation has used up its tries.
bool Dispatcher::restart(Lane& lane, SandboxSlot slot) {
  PendingInvocation& invocation = invocations_[lane.fleet.sandbox(slot).invocation];
  const FunctionId function = invocation.function;
  if (invocation.restarts >= options_.restarts || !knows(function) || draining_) return false;
  ++invocation.restarts;
  --start_counter(invocation.start);
  if (invocation.is_cpu_variant()) --counters_.host_runs;
  if (!place_stands(lane, lane.fleet.sandbox(slot))) {
    return_to_queue(lane, slot);
    remove_sandbox(lane, slot);
    return true;
  }
  forget_moves(lane, slot);
  invocation.start = StartClass::kCold;
  invocation.state = InvocationState::kStarting;
  invocation.dispatched = now_;
  if (&lane == gpu_.get()) expect_end(invocation, false);
  invocation_deadlines_.erase(lane.fleet.sandbox(slot).invocation);
  lane.fleet.restart(slot, SandboxId{++sandbox_ids_}, flows_[function.value].revision, now_);
  start_sandbox(lane, slot);
  return true;
}

void Dispatcher::start_failed(Lane& lane, SandboxSlot slot, const SandboxExited& event) {
  const InvocationSlot invocation = lane.fleet.sandbox(slot).invocation;
  if (event.error_type != kPlatformFailure) {
    note_host_failure(invocations_[invocation]);
    const bool is_mistake = event.error_type != kNoRoom;
    complete(invocation, is_mistake ? Outcome::kFunctionError : Outcome::kRejected, event.error,
             event.error_type);
    remove_sandbox(lane, slot);
    return;
  }
  const FunctionId function = lane.fleet.sandbox(slot).function;
  // What others broke is no sign that it fails again.
  PendingInvocation& pending = invocations_[invocation];
  unsigned& tries = event.undelivered ? pending.restarts : pending.failed_starts;
  if (tries < (event.undelivered ? options_.restarts : options_.start_retries) && knows(function)) {
    ++tries;
    std::erase(lane.ready, slot);
    if (!place_stands(lane, lane.fleet.sandbox(slot))) {
      return_to_queue(lane, slot);
      remove_sandbox(lane, slot);
      return;
    }
    if (&lane == gpu_.get()) expect_end(pending, false);
    lane.fleet.replace_id(slot, SandboxId{++sandbox_ids_}, now_);
    start_sandbox(lane, slot);
    return;
  }
  note_host_failure(invocations_[invocation]);
  complete(invocation, Outcome::kRejected,
           Error{ErrorCode::kUnavailable, "starting a sandbox failed: " + event.error.message},
           event.error_type);
  remove_sandbox(lane, slot);
}

void Dispatcher::expire_sandbox(Lane& lane, SandboxSlot slot) {
  const Sandbox& sandbox = lane.fleet.sandbox(slot);
  if (sandbox.state == SandboxState::kIdle) {
    stop_sandbox(lane, slot, StopReason::kIdle);
    return;
  }
  if (sandbox.state == SandboxState::kStopping) {
    stop_hangs(lane, slot);
    return;
  }
  CHECK(sandbox.state == SandboxState::kStarting, "planned and busy sandboxes have no deadline");
  ++counters_.timeouts;
  char text[64];
  std::snprintf(text, sizeof(text), "Init timed out after %.2f seconds",
                to_seconds(now_ - sandbox.since));
  note_host_failure(invocations_[sandbox.invocation]);
  complete(sandbox.invocation, Outcome::kFunctionError, Error{ErrorCode::kDeadlineExceeded, text},
           "Sandbox.InitTimeout");
  lane.fleet.unassign(slot);
  stop_sandbox(lane, slot, StopReason::kInitTimedOut);
}

void Dispatcher::start_sandbox(Lane& lane, SandboxSlot slot) {
  if (lane.fleet.sandbox(slot).state == SandboxState::kPlanned) lane.fleet.start(slot, now_);
  const Sandbox& sandbox = lane.fleet.sandbox(slot);
  invocation_deadlines_.erase(sandbox.invocation);
  ++counters_.sandboxes_started;
  // As Lambda does it: a start may take as long as its function may run, if that is longer.
  const Duration longest = std::max(options_.init_timeout, flows_[sandbox.function.value].timeout);
  lane.deadlines.put(slot, now_ + longest);
  emit(StartSandbox{.sandbox = sandbox.id,
                    .function = sandbox.function,
                    .revision = sandbox.revision,
                    .device = lane.fleet.devices()[sandbox.device].options.id});
}

void Dispatcher::stop_sandbox(Lane& lane, SandboxSlot slot, StopReason reason) {
  forget_moves(lane, slot);
  lane.fleet.stop(slot, now_);
  lane.deadlines.put(slot, now_ + options_.stop_timeout);
  emit(StopSandbox{lane.fleet.sandbox(slot).id, reason});
  lane.policy->places_changed(view_of(lane), lane.fleet.sandbox(slot).function, now_);
}

void Dispatcher::remove_sandbox(Lane& lane, SandboxSlot slot) {
  lane.deadlines.erase(slot);
  std::erase(lane.ready, slot);
  forget_moves(lane, slot);
  const FunctionId function = lane.fleet.sandbox(slot).function;
  lane.fleet.remove(slot);
  lane.policy->places_changed(view_of(lane), function, now_);
}

// An invocation is over and its sandbox lives: it rests, unless it must go.
void Dispatcher::after_run(Lane& lane, SandboxSlot slot) {
  lane.fleet.unassign(slot);
  if (lane.fleet.sandbox(slot).fetching > Bytes(0)) end_fetch(lane, slot, false);
  if (const auto reason = must_go(lane, lane.fleet.sandbox(slot))) {
    stop_sandbox(lane, slot, *reason);
    return;
  }
  std::erase(lane.wanting, slot);
  lane.fleet.rest(slot, now_);
  lane.deadlines.put(slot, now_ + options_.keep_alive);
  lane.policy->places_changed(view_of(lane), lane.fleet.sandbox(slot).function, now_);
  if (!lane.fleet.moves_idle()) return;
  // One that went without its memory to the end has nothing under way.
  if (lane.fleet.sandbox(slot).residency == scheduling::Residency::kOut) lane.moves.erase(slot);
  if (lane.policy->moves_off_after_run() && lane.fleet.may_move_out(slot, false)) {
    move_out(lane, slot, MoveDepth::kMemory);
  }
}

std::optional<StopReason> Dispatcher::must_go(const Lane& lane, const Sandbox& sandbox) const {
  if (draining_) return StopReason::kDrained;
  if (sandbox.device_losses != lane.fleet.devices()[sandbox.device].losses) {
    return StopReason::kDeviceLost;
  }
  const scheduling::Flow& flow = flows_[sandbox.function.value];
  if (!flow.registered || flow.revision != sandbox.revision) return StopReason::kRetired;
  if (!lane.policy->keeps_sandboxes()) return StopReason::kUsedOnce;
  return std::nullopt;
}

void Dispatcher::stop_idle(FunctionId function, StopReason reason) {
  for (Lane* lane : {gpu_.get(), host_.get()}) {
    const std::vector<SandboxSlot> idle = lane->fleet.idle_of(function);
    for (const SandboxSlot slot : idle) stop_sandbox(*lane, slot, reason);
  }
}

std::optional<Dispatcher::LaneSlot> Dispatcher::find_sandbox(SandboxId id) {
  if (const auto slot = gpu_->fleet.find(id)) return LaneSlot{*gpu_, *slot};
  if (const auto slot = host_->fleet.find(id)) return LaneSlot{*host_, *slot};
  return std::nullopt;
}

}  // namespace lambent::dispatch
