// Invariant: what must hold of a Dispatcher, by name, and what a checker of it is told. Values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "decide/dispatch/dispatcher.h"

namespace lambent::simulator {

enum class Invariant {
  // No device holds more than it has, memory on its way included; nor, beside what is taken of it,
  // more is brought there than fits, or kept there by who rests.
  kMemory,
  kHostMemory,       // what was moved off the devices is within its budget
  kTokens,           // no more at work on a device than D, nor more starts beside than slots
  kPool,             // no more sandboxes than contexts and the pool allow
  kStartSandbox,     // a new sandbox, of a function that exists as it is now, on a healthy device
  kStartInvocation,  // into a living, ready sandbox of its function; once
  kMoves,  // only of what stands still and may move: in where it is out, out of those at rest; and
           // what a program wants of what is offloaded is answered once
  kStopSandbox,       // one that exists and was not stopped before
  kOneOutcome,        // exactly one outcome for each submitted invocation, none for others
  kTrueOutcome,       // success only of what the handler finished; phases that add up
  kQueues,            // no queue beyond its limit
  kVirtualTime,       // the global one never goes back and is the least that holds it
  kOverRun,           // none is served further than T ahead, unless counted as conserving
  kWorkConservation,  // no device idles while an invocation that fits and may run waits
  kEndlessWait,       // every wait, start, run and rest has an end
  kTimers,            // no timer in the past, none too late for what it is to end
  kAccounts,          // the fleet's accounting agrees with what was started and what is gone
  kNothingLeft,       // at the end nothing is held
  kSnapshot,          // a dispatcher restored from a snapshot decides as the one that was saved
};
constexpr size_t kInvariants = static_cast<size_t>(Invariant::kSnapshot) + 1;
std::string_view name_of(Invariant invariant);

struct Violation {
  Invariant invariant = Invariant::kMemory;
  std::string what;
};

struct InvariantOptions {
  // The limits to hold the dispatcher to: those that it was made with.
  dispatch::DispatchOptions limits;
  // T of a policy with virtual times; unset: the policy has none.
  std::optional<Duration> over_run;
  // Whether only flows of which something waits hold its global time (FairQueuingOptions).
  bool waiting_holds_global = false;
  // Whether a function has one batch at a time, whatever its max_concurrency.
  bool one_batch_per_function = false;
  // Whether a device may idle although an invocation that fits waits, for a device of its own: then
  // only a function that has nothing at work must find one in time.
  bool may_idle = false;
  // What costs a look at everything that exists is looked at every so many events.
  unsigned scan_period = 16;
};

}  // namespace lambent::simulator
