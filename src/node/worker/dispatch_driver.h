// DispatchDriver: feeds dispatch with events, one after the other, and performs its actions on the
// backends and on live invocations. The only caller of Dispatcher::handle(). Used by the parts of
// Worker on the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/fault_points.h"
#include "core/base/log.h"
#include "core/loop/event_loop.h"
#include "core/metrics/worker_metrics.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/dispatch/foreseen_starts.h"
#include "node/worker/backends.h"
#include "node/worker/code_store.h"
#include "node/worker/completions.h"
#include "node/worker/deferred_actions.h"
#include "node/worker/drain.h"
#include "node/worker/function_registry.h"
#include "node/worker/host_memory_watch.h"
#include "node/worker/journal_writer.h"
#include "node/worker/live_invocations.h"
#include "node/worker/pipeline_host.h"
#include "node/worker/unloads.h"

namespace lambent::worker {

class DispatchDriver final : public BackendObserver, public ExecutorMemory {
 public:
  // All outlive it. The constructor uses none but the loop, the log, the dispatcher and the
  // recorder: the others may be constructed later.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    metrics::WorkerMetrics& metrics;
    dispatch::Dispatcher& dispatcher;
    journal::Recorder* recorder;  // null: nothing is recorded
    const FunctionRegistry& functions;
    const CodeStore& code;
    LiveInvocations& live;
    Drain& drain;
    Backends& backends;
    BackendReports& reports;  // passes on to this what backends report
    ExecutorHost& executors;
    PipelineHost& pipelines;
    Completions& completions;
    HostMemoryWatch& host_memory;
    Unloads& unloads;
    // What a CUDA context takes of a device.
    Bytes context_memory;
    FaultPoints* faults = nullptr;  // null: there are none
  };

  explicit DispatchDriver(Dependencies dependencies);
  ~DispatchDriver();
  DispatchDriver(const DispatchDriver&) = delete;
  DispatchDriver& operator=(const DispatchDriver&) = delete;

  // Dispatch decides on it, and what it decides is performed. An event that comes up meanwhile
  // waits for its turn.
  void handle(dispatch::Event event);
  // It holds a place and was not given to its sandbox, or has left it: its end is that it was
  // cancelled.
  void answer_cancelled(LiveInvocation& live);
  JournalWriter& journal() { return journal_; }
  const dispatch::Dispatcher& dispatcher() const { return dispatcher_; }

  // One that the program before this one left becomes dispatch's. False: there is no place for it.
  bool keep(const KeptOnDevices& kept);

  // Of the sandboxes that dispatch started.
  void on_ready(SandboxId sandbox, Duration sandbox_time, Duration init_time) override;
  void on_answer(SandboxId sandbox, HandlerAnswer answer) override;
  void on_end(SandboxEnd end) override;
  void on_memory_moved(SandboxId sandbox, const MemoryMove& move) override;
  void on_memory_wanted(SandboxId sandbox, Bytes bytes) override;

  void executors_take(DeviceId device, Bytes bytes) override;
  bool has_room(DeviceId device, Bytes bytes) const override;

 private:
  void tell_foreseen() const;
  void perform(const dispatch::Action& action);
  void perform(const dispatch::StartSandbox& action);
  void perform(const dispatch::StartInvocation& action);
  void perform(const dispatch::StopSandbox& action);
  void perform(const dispatch::CompleteInvocation& action);
  void perform(const dispatch::WakeAt& action);
  void perform(const dispatch::MoveMemoryIn& action);
  void perform(const dispatch::MoveMemoryOut& action);
  void perform(const dispatch::GrantMemory& action);
  void deliver(LiveInvocation& live);
  void deliver_once_noted(LiveInvocation& live);
  void return_if_not_noted(SandboxEnd& end);
  void start_sandbox(const dispatch::StartSandbox& action);
  void fail_start(const dispatch::StartSandbox& action, Error error, std::string error_type);
  void perform_deferred(const dispatch::Action& action);
  void note_failed_instance(FunctionId function, const SandboxEnd& end);

  // The end of what dispatch served; takes the answer out of `live`.
  InvocationResult result_of(LiveInvocation& live, const dispatch::CompleteInvocation& completion);
  bool is_stopped_next(SandboxId sandbox) const;
  RunReport report_of(LiveInvocation& live, Outcome outcome);
  RunReport report_of_end(const LiveInvocation& live) const;
  // The sandbox that the next action stops because it was not ready in time, if it does.
  SandboxId sandbox_not_ready_in_time() const;

  const Dependencies uses_;
  dispatch::Dispatcher& dispatcher_;
  JournalWriter journal_;
  DeferredActions deferred_;
  std::deque<dispatch::Event> events_;
  bool handling_ = false;
  // That were resumed, and wait for the catalog to count this attempt, in the sandbox that they
  // have; zero: they have none.
  std::unordered_map<InvocationId, SandboxId> not_noted_;
  std::vector<dispatch::Action> actions_;
  dispatch::ForeseenStarts foreseen_;
  size_t performing_ = 0;  // in actions_
  // Set while dispatch handles the end of a sandbox, so that an invocation which never reached its
  // handler gets the runtime's own words.
  const SandboxEnd* ending_ = nullptr;
  loop::TimerId wake_timer_;
};

}  // namespace lambent::worker
