#include "decide/dispatch/outcomes.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/base/check.h"

namespace lambent::dispatch {

using scheduling::Flow;
using scheduling::Sandbox;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

namespace {

// The error type that is the platform's fault, and is tried again; all but these two are the
// function's.
constexpr std::string_view kPlatformFailure = "Sandbox.Failure";
// What the sandbox needs beside its own memory had no room on the device: another try would wait
// as long.
constexpr std::string_view kNoRoom = "Sandbox.NoRoom";

}  // namespace

// ---- Runs

void Outcomes::finished(const InvocationFinished& event) {
  const auto slot = queues_.find(event.invocation);
  if (!slot || queues_[*slot].state != InvocationState::kRunning) {
    ++log_.counters().ignored_events;
    return;
  }
  const PendingInvocation& invocation = queues_[*slot];
  const SandboxSlot sandbox = invocation.sandbox;
  // A run whose memory never came says nothing about what it takes on the device.
  const bool failed_on_host = invocation.is_cpu_variant() && !event.succeeded;
  charge(invocation, event.execution - invocation.memory_time);
  if (!invocation.awaits_memory && !failed_on_host) {
    const Duration execution = std::max(Duration(0), event.execution - invocation.memory_time);
    overflow_.learn_run(invocation, execution, log_.now());
  }
  admission_.control().run_ended(invocation.function, log_.now() - invocation.dispatched);
  if (event.succeeded) {
    overflow_.note_success(invocation);
  } else if (flows_[invocation.function.value].max_concurrency > 0) {
    // Where no GPU could have done better it is the handler's own affair.
    overflow_.note_failure(invocation, log_.now());
  }
  DevicePool& pool = pools_.of(invocation);
  SharedSandboxes::Turn* turn = pool.shared().find(sandbox);
  if (turn != nullptr && event.succeeded) {
    turn->answered = log_.now();
    turn->is_suspect = false;
  }
  const bool others = pool.shared().has_others(sandbox);
  complete(*slot, event.succeeded ? Outcome::kSucceeded : Outcome::kFunctionError, std::nullopt,
           "");
  if (!others) after_run(pool, sandbox);
}

void Outcomes::undelivered(const InvocationUndelivered& event) {
  const auto slot = queues_.find(event.invocation);
  if (!slot || queues_[*slot].state != InvocationState::kRunning) {
    ++log_.counters().ignored_events;
    return;
  }
  PendingInvocation& invocation = queues_[*slot];
  DevicePool& pool = pools_.of(invocation);
  if (!pool.shared().has_others(invocation.sandbox)) {
    ++log_.counters().ignored_events;
    return;
  }
  pool.shared().find(invocation.sandbox)->leaves = true;
  if (invocation.restarts >= options_.restarts) {
    complete(*slot, Outcome::kFunctionError,
             Error{ErrorCode::kUnavailable,
                   "its sandbox ended before it reached the handler, and so did those before"},
             "Runtime.ExitError");
    return;
  }
  ++invocation.restarts;
  placements_.return_from_others(*slot);
}

void Outcomes::charge(const PendingInvocation& invocation, Duration time) {
  if (invocation.on_host || invocation.awaits_memory) return;
  SharedSandboxes::Turn* turn = pools_.gpu.shared().find(invocation.sandbox);
  if (turn != nullptr && turn->is_shared) {
    time = log_.now() - std::exchange(turn->charged_until, log_.now());
  }
  time *= pools_.gpu.fleet().sandbox(invocation.sandbox).devices();
  tenants_.add_gpu_time(flows_[invocation.function.value].tenant_slot, time, log_.now());
}

// Its sandbox lives: it rests, unless it must go.
void Outcomes::after_run(DevicePool& pool, SandboxSlot slot) {
  pool.fleet().unassign(slot);
  const Sandbox& sandbox = pool.fleet().sandbox(slot);
  if (sandbox.fetching > Bytes(0)) pool.moves().refuse_fetch(slot);
  if (const auto reason = must_go(pool, sandbox)) {
    pool.stop(slot, *reason);
  } else {
    pool.rest(slot);
  }
}

std::optional<StopReason> Outcomes::must_go(const DevicePool& pool, const Sandbox& sandbox) const {
  if (admission_.draining()) return StopReason::kDrained;
  if (sandbox.device_losses != pool.fleet().device_table().losses_of(sandbox)) {
    return StopReason::kDeviceLost;
  }
  const Flow& flow = flows_[sandbox.function.value];
  const bool is_present =
      flow.revision == sandbox.revision || instances_.hands_over(sandbox.function);
  if (!flow.registered || !is_present) return StopReason::kRetired;
  if (!pool.scheduler().policy().keeps_sandboxes()) return StopReason::kUsedOnce;
  return std::nullopt;
}

void Outcomes::complete(InvocationSlot slot, Outcome outcome, std::optional<Error> error,
                        std::string error_type) {
  const PendingInvocation& invocation = queues_[slot];
  Counters& counters = log_.counters();
  if (outcome == Outcome::kSucceeded) ++counters.succeeded;
  if (outcome == Outcome::kFunctionError) ++counters.function_errors;
  if (outcome == Outcome::kRejected) ++counters.rejected;
  // Whatever becomes of its sandbox, that is still there.
  const bool has_sandbox = invocation.sandbox != scheduling::kNoSandbox;
  log_.add(CompleteInvocation{
      .invocation = invocation.id,
      .outcome = outcome,
      .error = std::move(error),
      .error_type = std::move(error_type),
      .start = invocation.start,
      .phases = phases_of(invocation),
      .device = invocation.device,
      .wait_reason = invocation.wait.told(log_.now()),
      .beside = has_sandbox ? pools_.of(invocation).beside_of(invocation.sandbox) : 0});
  const FunctionId function = invocation.function;
  if (placements_.leave_to_others(slot)) {
    queues_.remove(slot);
    flows_[function.value].last_activity = log_.now();
    pools_.of(flows_[function.value]).scheduler().flow_changed(function);
    return;
  }
  const bool was_cpu_variant = invocation.is_cpu_variant();
  overflow_.leave(slot);
  queues_.remove(slot);
  Flow& flow = flows_[function.value];
  flow.last_activity = log_.now();
  // The policy was told of its end when it left the queue.
  if (was_cpu_variant) return;
  PoolScheduler& scheduler = pools_.of(flow).scheduler();
  if (!flow.has_work()) {
    flow.active_until = log_.now() + scheduler.policy().grace(scheduler.view(), function);
  }
  scheduler.finished(function);
}

Phases Outcomes::phases_of(const PendingInvocation& invocation) const {
  const Instant now = log_.now();
  Phases phases;
  phases.sandbox = invocation.sandbox_time;
  phases.init = invocation.init_time;
  const bool starts =
      invocation.state == InvocationState::kStarting && !placements_.waits_for_token(invocation);
  // A start that came to nothing was a start all the same.
  if (starts) phases.sandbox = now - invocation.dispatched, phases.init = {};
  if (invocation.state == InvocationState::kRunning) {
    phases.memory = invocation.awaits_memory ? now - invocation.started : invocation.memory_time;
    phases.run = now - invocation.started - phases.memory;
  }
  // Whatever was neither starting nor running was waiting, for a turn or for a token.
  phases.queue =
      now - invocation.submitted - phases.sandbox - phases.init - phases.memory - phases.run;
  return phases;
}

// ---- Sandboxes that are gone

void Outcomes::sandbox_exited(const SandboxExited& event) {
  const auto found = pools_.find(event.sandbox);
  if (!found || found->pool.fleet().sandbox(found->slot).state == SandboxState::kPlanned) {
    ++log_.counters().ignored_events;
    return;
  }
  DevicePool& pool = found->pool;
  const Sandbox& sandbox = pool.fleet().sandbox(found->slot);
  if (sandbox.state != SandboxState::kStopping && !event.undelivered) {
    const uint64_t served = sandbox.served;
    instances_.ended(sandbox.function, sandbox.revision, served);
  }
  if (!sandbox.has_invocation) {
    pool.remove(found->slot);
    return;
  }
  if (sandbox.state == SandboxState::kStarting) {
    start_failed(pool, found->slot, event);
    return;
  }
  const bool had_one = !pool.shared().has_others(found->slot);
  while (pool.shared().has_others(found->slot)) {
    fail_run(pool.shared().find(found->slot)->others.back(), event);
  }
  const bool may_restart = event.undelivered && had_one && sandbox.state == SandboxState::kBusy;
  if (may_restart && restart(pool, found->slot)) return;
  fail_run(sandbox.invocation, event);
  pool.remove(found->slot);
}

void Outcomes::fail_run(InvocationSlot slot, const SandboxExited& event) {
  const PendingInvocation& run = queues_[slot];
  // A variant that fails at once is not a fast one.
  charge(run, log_.now() - run.started - run.memory_time);
  if (!run.awaits_memory && !run.is_cpu_variant()) {
    overflow_.learn_run(run, log_.now() - run.started - run.memory_time, log_.now());
  }
  overflow_.note_failure(run, log_.now());
  complete(slot, Outcome::kFunctionError, event.error, event.error_type);
}

// Not again and again: false once the invocation has used up its tries.
bool Outcomes::restart(DevicePool& pool, SandboxSlot slot) {
  PendingInvocation& invocation = queues_[pool.fleet().sandbox(slot).invocation];
  if (invocation.restarts >= options_.restarts || !is_registered(flows_, invocation.function) ||
      admission_.draining()) {
    return false;
  }
  ++invocation.restarts;
  placements_.restart(pool, slot);
  return true;
}

void Outcomes::start_failed(DevicePool& pool, SandboxSlot slot, const SandboxExited& event) {
  const InvocationSlot number = pool.fleet().sandbox(slot).invocation;
  PendingInvocation& invocation = queues_[number];
  if (event.error_type != kPlatformFailure) {
    overflow_.note_failure(invocation, log_.now());
    const bool is_mistake = event.error_type != kNoRoom;
    complete(number, is_mistake ? Outcome::kFunctionError : Outcome::kRejected, event.error,
             event.error_type);
    pool.remove(slot);
    return;
  }
  // What others broke is no sign that it fails again.
  unsigned& tries = event.undelivered ? invocation.restarts : invocation.failed_starts;
  const unsigned most = event.undelivered ? options_.restarts : options_.start_retries;
  if (tries < most && is_registered(flows_, pool.fleet().sandbox(slot).function)) {
    ++tries;
    placements_.start_again(pool, slot);
    return;
  }
  overflow_.note_failure(invocation, log_.now());
  complete(number, Outcome::kRejected,
           Error{ErrorCode::kUnavailable, "starting a sandbox failed: " + event.error.message},
           event.error_type);
  pool.remove(slot);
}

// ---- What takes too long

void Outcomes::expire(InvocationSlot slot) {
  const PendingInvocation& invocation = queues_[slot];
  if (invocation.state == InvocationState::kStarting) {
    // It has a place, and the sandbox that is to leave it does not. Dispatchers that name the last
    // reason, as before state version 23, tell it only of one whose wait ends in its place.
    if (!invocation.wait.tells_longest()) placements_.tell_wait_in_planned(slot);
    const InvocationId id = invocation.id;
    placements_.drop_planned(pools_.of(invocation), [&](const Sandbox& one) {
      return one.has_invocation && one.invocation == slot;
    });
    // A worker that stops has rejected it meanwhile.
    if (!queues_.find(id)) return;
  }
  if (invocation.state == InvocationState::kQueued) {
    admission_.give_up(slot);
    return;
  }
  time_out(slot);
}

// Those beside it in its sandbox go on. A program that has answered none since this one began may
// hang: it is given no more, and is stopped once the last one in it has timed out.
void Outcomes::time_out(InvocationSlot slot) {
  const PendingInvocation& invocation = queues_[slot];
  const Instant now = log_.now();
  char text[96];
  ++log_.counters().timeouts;
  const Duration timeout = now - invocation.started - invocation.memory_time;
  std::snprintf(text, sizeof(text), "Task timed out after %.2f seconds", to_seconds(timeout));
  const SandboxSlot sandbox = invocation.sandbox;
  DevicePool& pool = pools_.of(invocation);
  // A function that hangs must pay for the time that it took.
  charge(invocation, timeout);
  overflow_.learn_run(invocation, timeout, now);
  overflow_.note_failure(invocation, now);
  SharedSandboxes::Turn* turn = pool.shared().find(sandbox);
  const bool answers = turn != nullptr && turn->answered > invocation.started;
  const bool others = turn != nullptr && !turn->others.empty();
  if (others && !answers) turn->is_suspect = true;
  complete(slot, Outcome::kFunctionError, Error{ErrorCode::kDeadlineExceeded, text},
           "Sandbox.Timeout");
  if (others) return;
  if (answers) return after_run(pool, sandbox);
  pool.fleet().unassign(sandbox);
  pool.stop(sandbox, StopReason::kTimedOut);
}

void Outcomes::expire(DevicePool& pool, SandboxSlot slot) {
  const Sandbox& sandbox = pool.fleet().sandbox(slot);
  if (sandbox.state == SandboxState::kIdle) {
    if (instances_.keeps(pool, sandbox)) return pool.rest_on(slot);
    pool.stop(slot, StopReason::kIdle);
    return;
  }
  if (sandbox.state == SandboxState::kStopping) {
    stop_hangs(pool, slot);
    return;
  }
  CHECK(sandbox.state == SandboxState::kStarting, "planned and busy sandboxes have no deadline");
  ++log_.counters().timeouts;
  instances_.ended(sandbox.function, sandbox.revision, 0);
  if (!sandbox.has_invocation) {
    pool.stop(slot, StopReason::kInitTimedOut);
    return;
  }
  char text[64];
  std::snprintf(text, sizeof(text), "Init timed out after %.2f seconds",
                to_seconds(log_.now() - sandbox.since));
  overflow_.note_failure(queues_[sandbox.invocation], log_.now());
  complete(sandbox.invocation, Outcome::kFunctionError, Error{ErrorCode::kDeadlineExceeded, text},
           "Sandbox.InitTimeout");
  pool.fleet().unassign(slot);
  pool.stop(slot, StopReason::kInitTimedOut);
}

// It was told to stop and still exists. What it holds stays held, perhaps for ever, so nothing may
// go on waiting only for that.
void Outcomes::stop_hangs(DevicePool& pool, SandboxSlot slot) {
  placements_.drop_planned(pool, [](const Sandbox&) { return true; });
  pool.keep_counting(slot);
  // Nor may any sandbox wait for memory that only it could have made room for.
  const Sandbox hung = pool.fleet().sandbox(slot);
  hung.for_each_device([&](uint32_t index) {
    const scheduling::Device& device = pool.fleet().devices()[index];
    pool.moves().refuse_fetches_beyond(index);
    while (device.committed > device.capacity()) {
      const auto last = pool.moves().last_wanting_on(index);
      if (!last) break;
      fail_move(pool, *last);
    }
  });
}

void Outcomes::fail_move(DevicePool& pool, SandboxSlot slot) {
  const Sandbox& sandbox = pool.fleet().sandbox(slot);
  if (sandbox.state == SandboxState::kBusy) {
    CHECK(!pool.shared().has_others(slot), "no invocation joins a sandbox whose memory is away");
    complete(sandbox.invocation, Outcome::kFunctionError,
             Error{ErrorCode::kUnavailable,
                   "the function's memory could not be brought back onto the GPU; try again"},
             "Sandbox.MoveFailed");
    pool.fleet().unassign(slot);
  }
  pool.stop(slot, StopReason::kMoveFailed);
}

// ---- Devices that are lost

void Outcomes::lose_device(uint32_t device) {
  DevicePool& pool = pools_.gpu;
  pool.fleet().lose(device);
  const std::vector<SandboxSlot> all = pool.fleet().all();
  for (const SandboxSlot slot : all) {
    const Sandbox& sandbox = pool.fleet().sandbox(slot);
    if (!sandbox.is_on(device)) continue;
    if (sandbox.state == SandboxState::kStarting) {
      if (sandbox.has_invocation) {
        start_lost(pool, slot);
      } else {
        pool.stop(slot, StopReason::kDeviceLost);
      }
    } else if (sandbox.state == SandboxState::kIdle) {
      pool.stop(slot, StopReason::kDeviceLost);
    }
  }
}

void Outcomes::start_lost(DevicePool& pool, SandboxSlot slot) {
  const InvocationSlot number = pool.fleet().sandbox(slot).invocation;
  PendingInvocation& invocation = queues_[number];
  if (invocation.failed_starts < options_.start_retries) {
    ++invocation.failed_starts;
    placements_.return_to_queue(pool, slot);
  } else {
    complete(
        number, Outcome::kRejected,
        Error{ErrorCode::kUnavailable, "the GPU was lost or drained while a sandbox started on it"},
        std::string(kPlatformFailure));
    pool.fleet().unassign(slot);
  }
  pool.waits().forget_ready(slot);
  pool.stop(slot, StopReason::kDeviceLost);
}

}  // namespace lambent::dispatch
