// What dispatch wants done: a closed set of actions. The worker performs them on processes, the
// simulator on models, a test inspects them.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "domain/invocation.h"

namespace lambent::dispatch {

// Start a sandbox for a function on a device; answered by SandboxReady or SandboxExited.
struct StartSandbox {
  SandboxId sandbox;
  FunctionId function;
  uint64_t revision = 1;
  DeviceId device;
};

// Give a ready, idle sandbox this invocation; answered by InvocationFinished or SandboxExited.
struct StartInvocation {
  InvocationId invocation;
  SandboxId sandbox;
  DeviceId device;
  StartClass start = StartClass::kWarm;
};

enum class StopReason { kEvicted, kIdle, kRetired, kTimedOut, kInitTimedOut, kDrained };
std::string_view name_of(StopReason reason);

// Stop a sandbox at once; answered by SandboxExited.
struct StopSandbox {
  SandboxId sandbox;
  StopReason reason = StopReason::kEvicted;
};

// The one outcome of an invocation. For kSucceeded and a handler's own error the worker adds the
// payload that it got from the handler.
struct CompleteInvocation {
  InvocationId invocation;
  Outcome outcome = Outcome::kSucceeded;
  std::optional<Error> error;
  std::string error_type;
  StartClass start = StartClass::kWarm;
  Phases phases;
  DeviceId device;
};

// Send TimerFired at this instant; replaces any earlier wish.
struct WakeAt {
  Instant instant;
};

using Action = std::variant<StartSandbox, StartInvocation, StopSandbox, CompleteInvocation, WakeAt>;

}  // namespace lambent::dispatch
