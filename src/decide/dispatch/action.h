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
  bool ahead = false;  // no invocation waits for it yet
  // The other devices of one that takes several: bit N - 1 for device N.
  uint64_t beside = 0;

  static constexpr std::string_view kName = "start sandbox";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("sandbox", self.sandbox);
    visit("function", self.function);
    visit("revision", self.revision);
    visit("device", self.device);
    visit.only_if(self.ahead, [&](auto& ahead) { ahead("ahead", self.ahead); });
    visit.only_if(self.beside != 0, [&](auto& others) { others("beside", self.beside); });
  }
};

// Give a ready, idle sandbox this invocation; answered by InvocationFinished or SandboxExited.
struct StartInvocation {
  InvocationId invocation;
  SandboxId sandbox;
  DeviceId device;
  StartClass start = StartClass::kWarm;
  uint64_t beside = 0;  // as in StartSandbox

  static constexpr std::string_view kName = "start invocation";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("invocation", self.invocation);
    visit("sandbox", self.sandbox);
    visit("device", self.device);
    visit("start", self.start);
    visit.unhashed("beside", self.beside);
  }
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

  static constexpr std::string_view kName = "stop sandbox";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("sandbox", self.sandbox);
    visit("reason", self.reason);
  }
};

// Move the device memory of a sandbox back onto its device, or off it to the host; each answered by
// one MemoryMoved, unless SandboxExited comes first. A sandbox that runs meanwhile waits at its
// first use of the device until its memory is there.
struct MoveMemoryIn {
  SandboxId sandbox;

  static constexpr std::string_view kName = "move memory in";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("sandbox", self.sandbox);
  }
};
enum class MoveDepth {
  kMemory,   // its allocations; what cannot be moved stays, its context for one
  kContext,  // and then all that is left
};
std::string_view name_of(MoveDepth depth);
struct MoveMemoryOut {
  SandboxId sandbox;
  MoveDepth depth = MoveDepth::kMemory;

  static constexpr std::string_view kName = "move memory out";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("sandbox", self.sandbox);
    visit("depth", self.depth);
  }
};

// The answer to MemoryWanted: so much of what is offloaded may be brought onto the device; none: it
// stays, and is reached where it is.
struct GrantMemory {
  SandboxId sandbox;
  Bytes bytes;

  static constexpr std::string_view kName = "grant memory";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("sandbox", self.sandbox);
    visit("bytes", self.bytes);
  }
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
  // What it waited for longest in one stretch; kNone if it did not wait. In journals of before
  // state version 23: what it waited for last.
  scheduling::WaitReason wait_reason = scheduling::WaitReason::kNone;
  uint64_t beside = 0;  // as in StartSandbox

  static constexpr std::string_view kName = "complete invocation";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("invocation", self.invocation);
    visit("outcome", self.outcome);
    visit("error", self.error);
    visit("start", self.start);
    visit("queue", self.phases.queue);
    visit("sandbox", self.phases.sandbox);
    visit("init", self.phases.init);
    visit("memory", self.phases.memory);
    visit("run", self.phases.run);
    visit("device", self.device);
    visit("wait_reason", self.wait_reason);
    visit.unhashed("error_type", self.error_type);
    visit.unhashed("beside", self.beside);
    visit.only_if(self.retry_after.count() != 0,
                  [&](auto& refused) { refused("retry_after", self.retry_after); });
  }
};

// Send TimerFired at this instant; replaces any earlier wish.
struct WakeAt {
  Instant instant;

  static constexpr std::string_view kName = "wake at";
  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("instant", self.instant);
  }
};

using Action = std::variant<StartSandbox, StartInvocation, StopSandbox, CompleteInvocation, WakeAt,
                            MoveMemoryIn, MoveMemoryOut, GrantMemory>;

}  // namespace lambent::dispatch
