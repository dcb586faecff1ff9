// Backend: a kind of place in which functions run: sandboxed processes (SandboxHost), kernel
// instances in executors (ExecutorHost). A new kind is one more class that implements this. Used on
// the loop thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/domain/invocation_service.h"
#include "core/protocol/memory_message.h"
#include "node/worker/memory_channel.h"
#include "node/worker/sandbox_plan.h"

namespace lambent::worker {

// What a run left behind, in the words that its client gets.
struct RunReport {
  std::string payload;     // the response, or Lambda's error JSON
  std::string error_type;  // empty on success
  Bytes device_memory_peak;
  Bytes host_memory_peak;
  std::string log_tail;
  Duration init{};  // of a program that never asked for work: since its processes were there
  std::string why_not_ready;  // of one that should listen, and was not ready; empty: unknown
};

// What a handler answered, and what the answer cost.
struct HandlerAnswer : RunReport {
  InvocationId invocation;
  bool succeeded = true;
  std::optional<Error> error;  // the code behind a failure, where it is not the handler's own words
  Duration execution{};        // from delivery to answer
  Bytes device_memory_now;
};

// How a sandbox ended, and with it what it ran.
struct SandboxEnd : RunReport {
  SandboxId sandbox;
  Error error;
  bool undelivered = false;  // it had an invocation that its handler never saw
  // That invocation, the first if several, with the payload that was taken out of its request.
  InvocationId invocation;
  std::string returned_payload;
  std::vector<InvocationId> unseen;  // all such, of one that may have several
  // Of these, those that wait again while others in it were seen, or while one keeps its place.
  std::vector<InvocationId> returned;
  // What is told of each that was in it beside the first, whose words are above.
  struct Other {
    InvocationId invocation;
    std::string payload;
    std::string log_tail;
  };
  std::vector<Other> others;
  bool context_is_broken = false;  // its CUDA context, after an answer: it was stopped for that
  // Its own code ended it, by an exit, a fault or too much memory: no signal came that only others
  // send, and it was not stopped.
  bool by_itself = false;
};

// One with a GPU that the program before this one left, idle.
struct KeptOnDevices {
  SandboxId sandbox;
  FunctionId function;
  std::vector<DeviceId> devices;  // the first one leads
  Duration sandbox_time{}, init_time{};
  // Where its memory is, as the last MemoryMove out told.
  bool memory_is_out = false, deep = false;
  Bytes left, offloaded;
};

// Receives what happens to the sandboxes that were started for it. An instance of a kernel counts
// as a sandbox. Functions that are not overridden ignore the event.
class BackendObserver {
 public:
  virtual void on_ready(SandboxId, Duration /*sandbox_time*/, Duration /*init_time*/) {}
  // It was ready in the program before this one, after so long.
  virtual void on_adopted(SandboxId, Duration /*sandbox_time*/, Duration /*init_time*/) {}
  // Its warm-up is over, before it is ready.
  virtual void on_warm_up(const FunctionName&, bool /*succeeded*/, Duration) {}
  virtual void on_answer(SandboxId, HandlerAnswer) {}
  virtual void on_end(SandboxEnd) {}
  virtual void on_output(FunctionId, std::string_view /*text*/) {}
  // The end of a move of its device memory.
  virtual void on_memory_moved(SandboxId, const MemoryMove&) {}
  // It wants so much of its offloaded memory on the device; answered by Backend::grant_memory().
  virtual void on_memory_wanted(SandboxId, Bytes) {}

 protected:
  ~BackendObserver() = default;
};

// What is started, where and for whom.
struct BackendStart {
  SandboxId sandbox;
  const FunctionSpec& spec;
  std::string code_folder;
  DeviceId device;
  StageProcessExtras extras = {};     // of a pipeline's stage process
  std::vector<DeviceId> beside = {};  // the other devices of one that takes several
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Answered by on_ready or on_end. The observer outlives the sandbox.
  virtual void start(BackendStart start, BackendObserver& observer) = 0;
  virtual bool has(SandboxId sandbox) const = 0;
  // To an idle sandbox, or one that may have more (StageProcessExtras::in_flight); answered by
  // on_answer or on_end. May take the payload out of `request`.
  virtual void deliver(SandboxId sandbox, InvocationRequest& request, Duration timeout) = 0;
  // Move its device memory; answered by on_memory_moved, or by on_end.
  virtual void move_memory_out(SandboxId sandbox, protocol::MemoryMoveDepth depth) = 0;
  virtual void move_memory_in(SandboxId sandbox) = 0;
  // The answer to on_memory_wanted.
  virtual void grant_memory(SandboxId sandbox, Bytes bytes) = 0;
  // Whether each sandbox has a CUDA context of its own, which stays on the device when only memory
  // is moved out.
  virtual bool has_own_contexts() const = 0;
  // Ends it at once; on_end follows with `error` and `error_type` (a time-out, an eviction).
  virtual void stop(SandboxId sandbox, Error error, std::string error_type) = 0;
  // The same, but a program that can be asked to end has so long to do it.
  virtual void end(SandboxId sandbox, Duration /*grace*/, Error error, std::string error_type) {
    stop(sandbox, std::move(error), std::move(error_type));
  }

  // One of several that it was given is over: it timed out. The others go on.
  virtual void abandon(SandboxId, InvocationId) {}

  // What this invocation of it, or its oldest, printed and allocated until now; for one that is
  // completed before it ended.
  virtual RunReport partial_report(SandboxId sandbox, InvocationId invocation) = 0;
  // Of one tenant; nothing: of all.
  virtual std::vector<SandboxStatus> status(Metering metering,
                                            std::optional<TenantId> tenant) const = 0;
};

// Gives the processes of a sandbox their turns on the links of its devices, which stand in the
// order of its program's numbers, and their leases of host memory.
class DeviceLinks {
 public:
  virtual void serve(SandboxId sandbox, const std::vector<DeviceId>& devices, Bytes most_leased,
                     OwnedFd listener) = 0;
  virtual void forget(SandboxId sandbox) = 0;

 protected:
  ~DeviceLinks() = default;
};

// Runs the CUDA calls of sandboxes whose functions share a GPU runtime.
class SharedRuntimes {
 public:
  // The sandbox's processes connect to `listener`, and what they hold is counted in `ledger`.
  // `on_lost` is called from the loop, at most once, if the runtime ends before remove_client().
  virtual void add_client(SandboxId sandbox, const FunctionSpec& spec, DeviceId device,
                          OwnedFd listener, OwnedFd ledger,
                          std::function<void(const Error&, const std::string&)> on_lost) = 0;
  virtual void remove_client(SandboxId sandbox) = 0;

 protected:
  ~SharedRuntimes() = default;
};

// The accounting of device memory that executors take beside what functions were promised.
class ExecutorMemory {
 public:
  // Executors take so much of the device from now on.
  virtual void executors_take(DeviceId device, Bytes bytes) = 0;
  // Whether functions leave room for that much.
  virtual bool has_room(DeviceId device, Bytes bytes) const = 0;

 protected:
  ~ExecutorMemory() = default;
};

}  // namespace lambent::worker
