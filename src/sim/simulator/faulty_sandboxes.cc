// The part of FaultyRun that performs what dispatch asks of sandboxes, or does not, and what
// becomes of them.
#include <utility>

#include "sim/simulator/faulty_run.h"

namespace lambent::simulator {
namespace {

constexpr std::string_view kPlatformFailure = "Sandbox.Failure";

}  // namespace

void FaultyRun::perform(const dispatch::StartSandbox& action) {
  const SandboxId id = action.sandbox;
  processes_[id] = {.function = action.function, .device = action.device.value};
  Duration start = scene_.function(action.function).start;
  if (chances_.occurs(Fault::kHangingStart)) return;
  if (chances_.occurs(Fault::kSlowStart)) start *= static_cast<int64_t>(between(random_, 2, 20));
  if (chances_.occurs(Fault::kFailedStart)) {
    timeline_.after(start / 2, [this, id] { die(id, std::string(kPlatformFailure), false); });
  } else if (chances_.occurs(Fault::kInitCrash)) {
    timeline_.after(start, [this, id] { die(id, "Runtime.ExitError", false); });
  } else {
    timeline_.after(start, [this, id, start] {
      if (!processes_[id].alive || chances_.occurs(Fault::kLostMessage)) return;
      report(dispatch::SandboxReady{id, start / 3, start - start / 3});
    });
  }
}

void FaultyRun::perform(const dispatch::StartInvocation& action) {
  const SandboxId id = action.sandbox;
  Process& process = processes_[id];
  process.given_too_late = !process.alive;
  if (!process.alive) return;
  if (process.running) return run_beside(id, action.invocation);
  process.running = true;
  process.invocation = action.invocation;
  const uint64_t run = ++process.runs;
  if (chances_.occurs(Fault::kUndelivered)) return die(id, "Runtime.ExitError", true);
  if (chances_.occurs(Fault::kHang)) return;
  Duration took = scene_.function(process.function).execution;
  took = up_to(random_, took) + took / 2;
  if (process.device == 0) took *= 2;
  // Most handlers need the device to get anywhere.
  if (!process.memory_in && random_.below(4) != 0) {
    process.awaits_memory = [this, id, run, took] {
      timeline_.after(took, [this, id, run, took] { end_run(id, run, took); });
    };
    return;
  }
  for (uint64_t wants = random_.below(5); wants > 0; --wants) {
    timeline_.after(up_to(random_, 2 * took), [this, id] { want_memory(id); });
  }
  const bool loads = action.start != StartClass::kWarm;
  if (loads && chances_.occurs(Fault::kFailedLoad)) {
    timeline_.after(took / 4, [this, id] { die(id, "Runtime.OutOfMemory", false); });
    return;
  }
  if (loads && chances_.occurs(Fault::kSlowLoad))
    took *= static_cast<int64_t>(between(random_, 2, 20));
  if (chances_.occurs(Fault::kCrash)) {
    timeline_.after(took / 2, [this, id] { die(id, "Runtime.ExitError", false); });
    return;
  }
  timeline_.after(took, [this, id, run, took] { end_run(id, run, took); });
}

// One more in a process that is at work.
void FaultyRun::run_beside(SandboxId id, InvocationId invocation) {
  Process& process = processes_[id];
  if (chances_.occurs(Fault::kUndelivered)) {
    report(dispatch::InvocationUndelivered{invocation});
    return die(id, "Runtime.ExitError", random_.below(2) == 0);
  }
  if (chances_.occurs(Fault::kHang)) return;
  process.others.insert(invocation);
  const Duration took = up_to(random_, scene_.function(process.function).execution);
  if (chances_.occurs(Fault::kCrash)) {
    timeline_.after(took, [this, id] { die(id, "Runtime.ExitError", false); });
    return;
  }
  timeline_.after(took, [this, id, invocation, took] { end_beside(id, invocation, took); });
}

void FaultyRun::end_beside(SandboxId id, InvocationId invocation, Duration took) {
  Process& process = processes_[id];
  if (!process.alive || process.others.erase(invocation) == 0) return;
  const bool succeeded = !chances_.occurs(Fault::kHandlerError);
  if (chances_.occurs(Fault::kLostMessage)) return;
  report(dispatch::InvocationFinished{invocation, took, succeeded, Bytes(0)});
}

void FaultyRun::perform(const dispatch::StopSandbox& action) {
  const SandboxId id = action.sandbox;
  processes_[id].alive = false;
  Duration took = up_to(random_, milliseconds(50));
  if (chances_.occurs(Fault::kHangingStop)) took += up_to(random_, std::chrono::minutes(15));
  // This one is never lost: a process that exists is found out about in the end.
  timeline_.after(took, [this, id] { report(dispatch::SandboxExited{id, {}, "Sandbox.Stopped"}); });
}

void FaultyRun::perform(const dispatch::MoveMemoryIn& action) {
  move(action.sandbox, dispatch::MoveDirection::kIn);
}

void FaultyRun::perform(const dispatch::MoveMemoryOut& action) {
  move(action.sandbox, dispatch::MoveDirection::kOut);
}

void FaultyRun::move(SandboxId id, dispatch::MoveDirection direction) {
  if (!processes_[id].alive || chances_.occurs(Fault::kHangingMove)) return;
  Duration took = up_to(random_, milliseconds(300));
  if (chances_.occurs(Fault::kSlowMove)) took += up_to(random_, seconds(30));
  if (chances_.occurs(Fault::kMoveDeath)) {
    timeline_.after(took / 2, [this, id] { die(id, "Runtime.ExitError", random_.below(4) == 0); });
    return;
  }
  dispatch::MemoryMoved moved{.sandbox = id, .direction = direction, .duration = took};
  moved.done = !chances_.occurs(Fault::kFailedMove);
  moved.moved = Bytes::mib(between(random_, 1, 8000));
  // Now and then more than it has.
  if (random_.below(2) == 0) moved.left = Bytes::mib(random_.below(random_.below(9) * 1000 + 1));
  if (random_.below(2) == 0) moved.offloaded = Bytes::mib(random_.below(9000));
  timeline_.after(took, [this, moved] { end_move(moved); });
}

// It may be asked for while it rests, too, by a thread that goes on.
void FaultyRun::want_memory(SandboxId id) {
  Process& process = processes_[id];
  if (!process.alive || std::exchange(process.wants, true)) return;
  give(dispatch::MemoryWanted{id, Bytes::mib(1 + random_.below(6000))});
}

void FaultyRun::end_move(const dispatch::MemoryMoved& moved) {
  Process& process = processes_[moved.sandbox];
  if (!process.alive) return;
  const bool in = moved.direction == dispatch::MoveDirection::kIn;
  process.memory_in = in == moved.done;
  if (process.memory_in && process.awaits_memory) {
    const auto goes_on = std::exchange(process.awaits_memory, nullptr);
    goes_on();
  }
  if (chances_.occurs(Fault::kLostMessage)) return;
  const Duration late =
      chances_.occurs(Fault::kLateMessage) ? up_to(random_, seconds(20)) : Duration(0);
  timeline_.after(up_to(random_, milliseconds(2)) + late, [this, moved] { give(moved); });
}

void FaultyRun::die(SandboxId id, const std::string& error_type, bool undelivered) {
  Process& process = processes_[id];
  if (!process.alive) return;
  process.alive = false;
  if (chances_.occurs(Fault::kLostMessage)) return;
  report(dispatch::SandboxExited{id, {ErrorCode::kUnknown, "it ended"}, error_type, undelivered});
}

void FaultyRun::end_run(SandboxId id, uint64_t run, Duration took) {
  Process& process = processes_[id];
  if (!process.alive || !process.running || process.runs != run) return;
  process.running = false;
  const bool succeeded = !chances_.occurs(Fault::kHandlerError);
  if (!chances_.occurs(Fault::kLostMessage)) {
    report(dispatch::InvocationFinished{process.invocation, took, succeeded, Bytes(0)});
  }
  if (chances_.of(Fault::kIdleDeath) < random_.uniform()) return;
  timeline_.after(up_to(random_, seconds(20)), [this, id] {
    const Process& idle = processes_[id];
    if (!idle.alive || idle.running || !idle.others.empty()) return;
    chances_.note(Fault::kIdleDeath);
    die(id, "Runtime.ExitError", false);
  });
}

}  // namespace lambent::simulator
