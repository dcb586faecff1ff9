// The part of Dispatcher that follows sandboxes: started, ready, at rest, stopped, gone.
#include <algorithm>
#include <cstdio>

#include "core/base/check.h"
#include "decide/dispatch/device_pool.h"
#include "decide/dispatch/dispatcher.h"

namespace lambent::dispatch {

using scheduling::Sandbox;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

void Dispatcher::on(const SandboxReady& event) {
  const auto found = find_sandbox(event.sandbox);
  if (!found || found->device_pool.fleet.sandbox(found->slot).state != SandboxState::kStarting) {
    ++counters_.ignored_events;
    return;
  }
  DevicePool& device_pool = found->device_pool;
  const Sandbox& sandbox = device_pool.fleet.sandbox(found->slot);
  if (std::find(device_pool.ready.begin(), device_pool.ready.end(), found->slot) !=
      device_pool.ready.end()) {
    ++counters_.ignored_events;
    return;
  }
  CHECK(sandbox.has_invocation, "a sandbox is started for an invocation");
  device_pool.deadlines.erase(found->slot);
  PendingInvocation& invocation = queues_[sandbox.invocation];
  // The sandbox measured its own init; the rest since the dispatch went into making it, a failed
  // first try and waiting for the room of others included.
  invocation.init_time = std::min(event.init_time, log_.now() - sandbox.since);
  invocation.sandbox_time = log_.now() - invocation.dispatched - invocation.init_time;
  scheduling::Flow& flow = flows_[sandbox.function.value];
  const bool uses_gpu = flow.device_memory.count > 0;
  if (uses_gpu || &device_pool == host_.get()) {
    (uses_gpu && &device_pool == host_.get() ? flow.host_cold_start : flow.cold_start)
        .learn(log_.now() - sandbox.since);
  }
  device_pool.policy->places_changed(view_of(device_pool), sandbox.function, log_.now());
  if (device_pool.fleet.may_run(found->slot)) {
    run(device_pool, found->slot, sandbox.invocation);
  } else {
    if (invocation.wait_reason == scheduling::WaitReason::kNone) {
      invocation.wait_reason = scheduling::WaitReason::kNoToken;
    }
    device_pool.ready.push_back(found->slot);
  }
}

void Dispatcher::on(const SandboxExited& event) {
  const auto found = find_sandbox(event.sandbox);
  if (!found || found->device_pool.fleet.sandbox(found->slot).state == SandboxState::kPlanned) {
    ++counters_.ignored_events;
    return;
  }
  DevicePool& device_pool = found->device_pool;
  const Sandbox& sandbox = device_pool.fleet.sandbox(found->slot);
  if (!sandbox.has_invocation) {
    remove_sandbox(device_pool, found->slot);
    return;
  }
  if (sandbox.state == SandboxState::kStarting) {
    start_failed(device_pool, found->slot, event);
    return;
  }
  if (event.undelivered && sandbox.state == SandboxState::kBusy &&
      restart(device_pool, found->slot))
    return;
  const InvocationSlot invocation = sandbox.invocation;
  const PendingInvocation& run = queues_[invocation];
  // A variant that fails at once is not a fast one.
  if (!run.awaits_memory && !run.is_cpu_variant()) {
    learn_run(run, log_.now() - run.started - run.memory_time);
  }
  note_host_failure(run);
  complete(invocation, Outcome::kFunctionError, event.error, event.error_type);
  remove_sandbox(device_pool, found->slot);
}

// Starts a new sandbox in the place, and with the token, of one that ended before it took up its
// invocation. Not again and again: false once the invocation has used up its tries.
bool Dispatcher::restart(DevicePool& device_pool, SandboxSlot slot) {
  PendingInvocation& invocation = queues_[device_pool.fleet.sandbox(slot).invocation];
  const FunctionId function = invocation.function;
  if (invocation.restarts >= options_.restarts || !knows(function) || draining_) return false;
  ++invocation.restarts;
  --start_counter(invocation.start);
  if (invocation.is_cpu_variant()) --counters_.host_runs;
  if (!place_stands(device_pool, device_pool.fleet.sandbox(slot))) {
    return_to_queue(device_pool, slot);
    remove_sandbox(device_pool, slot);
    return true;
  }
  forget_moves(device_pool, slot);
  invocation.start = StartClass::kCold;
  invocation.state = InvocationState::kStarting;
  invocation.dispatched = log_.now();
  if (&device_pool == gpu_.get()) expect_end(invocation, false);
  queues_.clear_deadline(device_pool.fleet.sandbox(slot).invocation);
  device_pool.fleet.restart(slot, SandboxId{++sandbox_ids_}, flows_[function.value].revision,
                            log_.now());
  start_sandbox(device_pool, slot);
  return true;
}

void Dispatcher::start_failed(DevicePool& device_pool, SandboxSlot slot,
                              const SandboxExited& event) {
  const InvocationSlot invocation = device_pool.fleet.sandbox(slot).invocation;
  if (event.error_type != kPlatformFailure) {
    note_host_failure(queues_[invocation]);
    const bool is_mistake = event.error_type != kNoRoom;
    complete(invocation, is_mistake ? Outcome::kFunctionError : Outcome::kRejected, event.error,
             event.error_type);
    remove_sandbox(device_pool, slot);
    return;
  }
  const FunctionId function = device_pool.fleet.sandbox(slot).function;
  // What others broke is no sign that it fails again.
  PendingInvocation& pending = queues_[invocation];
  unsigned& tries = event.undelivered ? pending.restarts : pending.failed_starts;
  if (tries < (event.undelivered ? options_.restarts : options_.start_retries) && knows(function)) {
    ++tries;
    std::erase(device_pool.ready, slot);
    if (!place_stands(device_pool, device_pool.fleet.sandbox(slot))) {
      return_to_queue(device_pool, slot);
      remove_sandbox(device_pool, slot);
      return;
    }
    if (&device_pool == gpu_.get()) expect_end(pending, false);
    device_pool.fleet.replace_id(slot, SandboxId{++sandbox_ids_}, log_.now());
    start_sandbox(device_pool, slot);
    return;
  }
  note_host_failure(queues_[invocation]);
  complete(invocation, Outcome::kRejected,
           Error{ErrorCode::kUnavailable, "starting a sandbox failed: " + event.error.message},
           event.error_type);
  remove_sandbox(device_pool, slot);
}

void Dispatcher::expire_sandbox(DevicePool& device_pool, SandboxSlot slot) {
  const Sandbox& sandbox = device_pool.fleet.sandbox(slot);
  if (sandbox.state == SandboxState::kIdle) {
    stop_sandbox(device_pool, slot, StopReason::kIdle);
    return;
  }
  if (sandbox.state == SandboxState::kStopping) {
    stop_hangs(device_pool, slot);
    return;
  }
  CHECK(sandbox.state == SandboxState::kStarting, "planned and busy sandboxes have no deadline");
  ++counters_.timeouts;
  char text[64];
  std::snprintf(text, sizeof(text), "Init timed out after %.2f seconds",
                to_seconds(log_.now() - sandbox.since));
  note_host_failure(queues_[sandbox.invocation]);
  complete(sandbox.invocation, Outcome::kFunctionError, Error{ErrorCode::kDeadlineExceeded, text},
           "Sandbox.InitTimeout");
  device_pool.fleet.unassign(slot);
  stop_sandbox(device_pool, slot, StopReason::kInitTimedOut);
}

void Dispatcher::start_sandbox(DevicePool& device_pool, SandboxSlot slot) {
  if (device_pool.fleet.sandbox(slot).state == SandboxState::kPlanned)
    device_pool.fleet.start(slot, log_.now());
  const Sandbox& sandbox = device_pool.fleet.sandbox(slot);
  queues_.clear_deadline(sandbox.invocation);
  ++counters_.sandboxes_started;
  // As Lambda does it: a start may take as long as its function may run, if that is longer.
  const Duration longest = std::max(options_.init_timeout, flows_[sandbox.function.value].timeout);
  device_pool.deadlines.put(slot, log_.now() + longest);
  log_.add(StartSandbox{.sandbox = sandbox.id,
                        .function = sandbox.function,
                        .revision = sandbox.revision,
                        .device = device_pool.fleet.devices()[sandbox.device].options.id});
}

void Dispatcher::stop_sandbox(DevicePool& device_pool, SandboxSlot slot, StopReason reason) {
  forget_moves(device_pool, slot);
  device_pool.fleet.stop(slot, log_.now());
  device_pool.deadlines.put(slot, log_.now() + options_.stop_timeout);
  log_.add(StopSandbox{device_pool.fleet.sandbox(slot).id, reason});
  device_pool.policy->places_changed(view_of(device_pool), device_pool.fleet.sandbox(slot).function,
                                     log_.now());
}

void Dispatcher::remove_sandbox(DevicePool& device_pool, SandboxSlot slot) {
  device_pool.deadlines.erase(slot);
  std::erase(device_pool.ready, slot);
  forget_moves(device_pool, slot);
  const FunctionId function = device_pool.fleet.sandbox(slot).function;
  device_pool.fleet.remove(slot);
  device_pool.policy->places_changed(view_of(device_pool), function, log_.now());
}

// An invocation is over and its sandbox lives: it rests, unless it must go.
void Dispatcher::after_run(DevicePool& device_pool, SandboxSlot slot) {
  device_pool.fleet.unassign(slot);
  if (device_pool.fleet.sandbox(slot).fetching > Bytes(0)) end_fetch(device_pool, slot, false);
  if (const auto reason = must_go(device_pool, device_pool.fleet.sandbox(slot))) {
    stop_sandbox(device_pool, slot, *reason);
    return;
  }
  std::erase(device_pool.wanting, slot);
  device_pool.fleet.rest(slot, log_.now());
  device_pool.deadlines.put(slot, log_.now() + options_.keep_alive);
  device_pool.policy->places_changed(view_of(device_pool), device_pool.fleet.sandbox(slot).function,
                                     log_.now());
  if (!device_pool.fleet.moves_idle()) return;
  // One that went without its memory to the end has nothing under way.
  if (device_pool.fleet.sandbox(slot).memory_state == scheduling::MemoryState::kOut)
    device_pool.moves.erase(slot);
  if (device_pool.policy->moves_off_after_run() && device_pool.fleet.may_move_out(slot, false)) {
    move_out(device_pool, slot, MoveDepth::kMemory);
  }
}

std::optional<StopReason> Dispatcher::must_go(const DevicePool& device_pool,
                                              const Sandbox& sandbox) const {
  if (draining_) return StopReason::kDrained;
  if (sandbox.device_losses != device_pool.fleet.devices()[sandbox.device].losses) {
    return StopReason::kDeviceLost;
  }
  const scheduling::Flow& flow = flows_[sandbox.function.value];
  if (!flow.registered || flow.revision != sandbox.revision) return StopReason::kRetired;
  if (!device_pool.policy->keeps_sandboxes()) return StopReason::kUsedOnce;
  return std::nullopt;
}

void Dispatcher::stop_idle(FunctionId function, StopReason reason) {
  for (DevicePool* device_pool : {gpu_.get(), host_.get()}) {
    const std::vector<SandboxSlot> idle = device_pool->fleet.idle_of(function);
    for (const SandboxSlot slot : idle) stop_sandbox(*device_pool, slot, reason);
  }
}

std::optional<Dispatcher::DevicePoolSlot> Dispatcher::find_sandbox(SandboxId id) {
  if (const auto slot = gpu_->fleet.find(id)) return DevicePoolSlot{*gpu_, *slot};
  if (const auto slot = host_->fleet.find(id)) return DevicePoolSlot{*host_, *slot};
  return std::nullopt;
}

}  // namespace lambent::dispatch
