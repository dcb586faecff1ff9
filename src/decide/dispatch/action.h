// What dispatch wants done: a closed set of actions. The worker performs them on processes, the
// simulator on models, a test inspects them.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/domain/invocation.h"
#include "decide/scheduling/wait_reason.h"

namespace lambent::dispatch {

// Start a sandbox for a function on a device; answered by SandboxReady or SandboxExited. Devices
// count from 1; device 0 (scheduling::kHostDevice) is the host's processors: for a function without
// GPU, or for the CPU variant of one that uses a GPU, in a sandbox that sees none.
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

enum class StopReason {
  kEvicted,       // another function needs its place
  kIdle,          // nothing to do for the keep-alive time
  kRetired,       // its function changed or is gone
  kUsedOnce,      // the policy gives every invocation a sandbox of its own
  kTimedOut,      // its invocation ran past the function's timeout
  kInitTimedOut,  // it did not ask for work in time
  kDrained,       // the worker stops
  kDeviceLost,    // its device was lost or drained, and with it all that the sandbox had there
  kMoveFailed,    // its memory could not be moved as it had to be
};
std::string_view name_of(StopReason reason);

// Stop a sandbox at once, whatever it does; answered by SandboxExited, until when its memory and
// its token stay taken. An invocation that it runs already has its outcome or gets it now.
struct StopSandbox {
  SandboxId sandbox;
  StopReason reason = StopReason::kEvicted;
};

// Move the device memory of a sandbox back onto its device, or off it to the host; each answered by
// one MemoryMoved, unless SandboxExited comes first. A sandbox that runs meanwhile waits at its
// first use of the device until its memory is there.
struct MoveMemoryIn {
  SandboxId sandbox;
};
enum class MoveDepth {
  kMemory,   // its allocations; what cannot be moved stays, its context for one
  kContext,  // and then all that is left
};
std::string_view name_of(MoveDepth depth);
struct MoveMemoryOut {
  SandboxId sandbox;
  MoveDepth depth = MoveDepth::kMemory;
};

// The answer to MemoryWanted: so much of what is offloaded may be brought onto the device; none: it
// stays, and is reached where it is.
struct GrantMemory {
  SandboxId sandbox;
  Bytes bytes;
};

// The one outcome of an invocation. For kSucceeded and a handler's own error the worker adds the
// payload that it got from the handler.
struct CompleteInvocation {
  InvocationId invocation;
  Outcome outcome = Outcome::kSucceeded;
  std::optional<Error> error;
  Duration retry_after{};  // of one that was refused because too much waits; else zero
  std::string error_type;
  StartClass start = StartClass::kWarm;
  Phases phases;
  DeviceId device;
  // What held it back once it was the first of its function's queue; kNone if nothing did.
  scheduling::WaitReason wait_reason = scheduling::WaitReason::kNone;
};

// Send TimerFired at this instant; replaces any earlier wish.
struct WakeAt {
  Instant instant;
};

using Action = std::variant<StartSandbox, StartInvocation, StopSandbox, CompleteInvocation, WakeAt,
                            MoveMemoryIn, MoveMemoryOut, GrantMemory>;

}  // namespace lambent::dispatch
