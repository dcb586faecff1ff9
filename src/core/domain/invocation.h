// An invocation: one request to run a function, and what came of it. Values, read everywhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/function.h"

namespace lambent {

// How warm the place was in which an invocation ran.
enum class StartClass {
  kCold,     // a sandbox was started for it
  kGpuCold,  // a warm sandbox whose device memory had to be brought in, or that had no GPU yet
  kWarm,     // a warm sandbox with everything in place
};
std::string_view name_of(StartClass start);

// Where the time of an invocation went; together they are its latency inside the worker.
struct Phases {
  Duration queue{};    // submitted until dispatched
  Duration sandbox{};  // starting the sandbox's processes, also where that came to nothing
  Duration init{};     // the runtime's own start until it asks for work
  Duration memory{};   // of the run, until the sandbox's device memory was there
  Duration run{};      // the rest of the run: handler given the event until it answered

  Duration total() const { return queue + sandbox + init + memory + run; }
  bool operator==(const Phases&) const = default;
};

enum class InvocationKind { kSynchronous, kAsynchronous };

struct InvocationRequest {
  InvocationId id;
  FunctionName function;
  InvocationKind kind = InvocationKind::kSynchronous;
  std::string payload;
  std::string content_type;    // empty: application/json
  std::string client_context;  // decoded JSON, may be empty
  std::string trace_id;        // X-Ray form, may be empty
  // Repeats of one request carry the same key (the SDK's invocation id); empty: none.
  std::string idempotency_key;
  // Part of what was promised before (a call of a workflow that was acknowledged): it is submitted
  // when there is room for it, so no want of room refuses it.
  bool acknowledged = false;
  // A call of a workflow: a client that waits for it waits for the workflow, and holds a connection
  // only for that.
  bool within_run = false;
  // Objects that it needs: it is queued once all of them exist, and fails if one of them does.
  std::vector<ObjectId> needs;
  // How many objects it makes, <id>.0 and on: futures from its submission on. What the function
  // answers is the first of them, unless the function made that itself.
  uint32_t outputs = 0;
  // How long these, and what a kernel function makes, live; none: as long as is usual. What a
  // handler puts itself has a time of its own. Not of asynchronous ones.
  std::optional<Duration> time_to_live;
};

// The outcome, exactly one per invocation.
enum class Outcome {
  kSucceeded,
  kFunctionError,  // the handler reported an error, crashed, or exceeded a limit: Lambda's
                   // 'Unhandled'
  kRejected,       // it never ran: `error` says why
};
std::string_view name_of(Outcome outcome);

struct InvocationResult {
  InvocationId id;
  Outcome outcome = Outcome::kSucceeded;
  std::string payload;         // the response, or Lambda's error JSON for kFunctionError
  std::string error_type;      // "Sandbox.Timeout", "ValueError", ...; empty on success
  std::optional<Error> error;  // for kRejected, and the code behind a kFunctionError
  // Of one that was refused because too much waits: when trying again is worth it; else zero.
  Duration retry_after{};

  StartClass start = StartClass::kWarm;
  Phases phases;
  // What held it back in the queue, in a word of docs/reference/scheduling.md; empty if nothing
  // did.
  std::string wait_reason;
  // Where its place was; none: it had none, for it was refused, or is a workflow, whose calls have
  // theirs.
  std::optional<DeviceId> device;
  std::vector<DeviceId> beside;  // its other devices, if its function takes several
  Bytes device_memory_peak;      // as the shim counted it
  Bytes host_memory_peak;
  std::string log_tail;  // the last limits::kLogTail bytes that it printed
  // Whether it was answered well within its function's SLO; none: that has none.
  std::optional<bool> in_time;
  uint64_t revision = 0;
  // Which version of its function ran: a number, or "$LATEST"; empty: it is not known.
  std::string version;

  // Of an asynchronous one: how many runs of it have ended, this one included.
  unsigned runs = 0;
  // It has no outcome yet: it is tried again after so long.
  std::optional<Duration> again_in;
  // Where its outcome was sent: "audit as ID", or "audit: not sent, because ..."; empty: nowhere.
  std::string destination;
};

// The error type of an asynchronous invocation that waited until its event was too old.
constexpr std::string_view kEventTooOldErrorType = "Event.TooOld";

}  // namespace lambent
