// SandboxHost: the sandboxes of this worker as processes: starts them, speaks the Runtime API with
// them, collects what they print and what they allocate, and tells the worker what happened. Used
// on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/domain/invocation_service.h"
#include "core/loop/event_loop.h"
#include "gpu/ledger/ledger.h"
#include "node/runtime_api/session.h"
#include "node/sandbox/launcher.h"
#include "node/worker/log_store.h"
#include "node/worker/memory_channel.h"
#include "node/worker/sandbox_plan.h"

namespace lambent::worker {

// What the place of a run says of it, in the words that its client gets.
struct RunReport {
  std::string payload;     // the response, or Lambda's error JSON
  std::string error_type;  // empty on success
  Bytes device_memory_peak;
  Bytes host_memory_peak;
  std::string log_tail;
};

// What a handler answered, and what the answer cost.
struct HandlerAnswer : RunReport {
  InvocationId invocation;
  bool succeeded = true;
  std::optional<Error> error;  // the code behind a failure, where it is not the handler's own words
  Duration execution{};        // given until answered
  Bytes device_memory_now;
};

// How a sandbox ended, and with it what it ran.
struct SandboxEnd : RunReport {
  SandboxId sandbox;
  Error error;
  Duration init{};           // of one that never asked for work: since its processes were there
  bool undelivered = false;  // it was given an invocation that its handler never saw
  // That invocation, the first if several, with the payload that was taken out of its request.
  InvocationId invocation;
  std::string returned_payload;
  std::vector<InvocationId> unseen;  // all such, of one that may have several
  bool context_is_broken = false;    // its CUDA context, after an answer: it was stopped for that
};

class SandboxHost {
 public:
  struct Events {
    std::function<void(SandboxId, Duration sandbox_time, Duration init_time)> on_ready;
    std::function<void(SandboxId, HandlerAnswer)> on_answer;
    std::function<void(SandboxEnd)> on_end;
    std::function<void(FunctionId, std::string_view text)> on_output;
    // How a move of its device memory went.
    std::function<void(SandboxId, MemoryMove)> on_memory_moved;
    // So much of its memory that is offloaded is wanted on the device; may be empty: it is granted.
    std::function<void(SandboxId, Bytes)> on_memory_wanted;
    // The processes of a sandbox will ask for turns on the device's link and for leases of host
    // memory at this listening socket. Either may be empty: then device memory moves without.
    std::function<void(SandboxId, DeviceId, Bytes most_leased, OwnedFd listener)> serve_link;
    std::function<void(SandboxId)> forget_link;
    // The processes of a sandbox whose function shares a GPU runtime connect to it at this
    // listening socket, and what they hold is counted in this ledger; until leave_runtime. Both or
    // neither: then such functions cannot start.
    std::function<void(SandboxId, const FunctionSpec&, DeviceId, OwnedFd listener, OwnedFd ledger)>
        share_runtime;
    std::function<void(SandboxId)> leave_runtime;
    // A handler's call on objects; `path` is what follows the part that all such calls share. May
    // be empty.
    std::function<void(TenantId, http::Request, std::string_view path, http::Responder)> on_object;
    // So much of a device's memory is taken by executors beside what functions were promised, from
    // now on. May be empty.
    std::function<void(DeviceId, Bytes)> on_taken;
    // Whether functions leave room for that much; may be empty: they do.
    std::function<bool(DeviceId, Bytes)> has_room;
    // One of the launcher's sandboxes that is not ours is gone; may be empty.
    std::function<void(SandboxId, const sandbox::Exit&)> on_other_exit;
  };

  // `run_folder` holds the ledgers; it is emptied first.
  SandboxHost(loop::EventLoop& loop, LogSink& log, sandbox::Launcher& launcher,
              SandboxSetting setting, std::string run_folder, Events events);
  ~SandboxHost();
  SandboxHost(const SandboxHost&) = delete;
  SandboxHost& operator=(const SandboxHost&) = delete;

  // Answered by on_ready or on_end.
  void start(SandboxId sandbox, const FunctionSpec& spec, const std::string& code_folder,
             DeviceId device, StageProcessExtras extras = {});
  // To an idle sandbox, or one that may have more (StageProcessExtras::in_flight); answered by
  // on_answer or on_end. Takes the payload out of `request`.
  void give(SandboxId sandbox, InvocationRequest& request, Duration timeout);
  // The answer to on_memory_wanted.
  void grant_memory(SandboxId sandbox, Bytes bytes);
  // Moves its device memory; answered by on_memory_moved, or by on_end.
  void move_memory_out(SandboxId sandbox, protocol::MemoryMoveDepth depth);
  void move_memory_in(SandboxId sandbox);
  // Ends it at once; `error` and `error_type` are what its end is told with (a time-out, an
  // eviction).
  void stop(SandboxId sandbox, Error error, std::string error_type);

  // What its (oldest) invocation printed and allocated until now; for one that is completed before
  // it ended.
  RunReport partial_report(SandboxId sandbox);

  std::vector<SandboxStatus> status() const;

 private:
  struct Sandbox;

  void started(SandboxId id, Result<sandbox::Started> result);
  void exited(SandboxId id, const sandbox::Exit& exit);
  void finish(SandboxId id, Error error, std::string error_type, Bytes host_memory_peak);
  void ready(Sandbox& sandbox);
  void answered(Sandbox& sandbox, InvocationId invocation, bool succeeded, std::string payload,
                std::string error_type);
  void init_failed(Sandbox& sandbox, std::string json, std::string type);
  void replace_broken(Sandbox& sandbox, LogTail& tail);
  // Reads what the sandbox printed; at most `most` bytes, so that a noisy one cannot hold the loop.
  void read_output(Sandbox& sandbox, size_t most);
  void print(Sandbox& sandbox, std::string_view text);
  void print_of(const Sandbox& sandbox, LogTail& tail, std::string_view text);
  // What the processes of a sandbox with a GPU are connected to.
  Result<void> connect_memory(Sandbox& sandbox, SandboxRequest& request);
  Result<void> connect_runtime(Sandbox& sandbox, SandboxRequest& request);
  void memory_moved(SandboxId id, const MemoryMove& move);
  Result<std::string> make_ledger(Sandbox& sandbox, Bytes limit);
  void read_ledger(Sandbox& sandbox);

  loop::EventLoop& loop_;
  LogSink& log_;
  sandbox::Launcher& launcher_;
  SandboxSetting setting_;
  std::string run_folder_;
  Events events_;
  std::unordered_map<SandboxId, std::unique_ptr<Sandbox>> sandboxes_;
};

}  // namespace lambent::worker
