// Dispatcher: the life of every invocation as a state machine: an event in, the actions it calls
// for out. Pure and deterministic; the worker, the simulator and tests drive it, each on one
// thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decide/dispatch/action.h"
#include "decide/dispatch/action_log.h"
#include "decide/dispatch/event.h"
#include "decide/dispatch/invocation_table.h"
#include "decide/dispatch/options.h"
#include "decide/dispatch/queues.h"
#include "decide/dispatch/run_list.h"
#include "decide/scheduling/deadlines.h"
#include "decide/scheduling/fleet.h"
#include "decide/scheduling/hybrid.h"
#include "decide/scheduling/memory_victims.h"
#include "decide/scheduling/policy.h"

namespace lambent::dispatch {

// Raised whenever what `Dispatcher::archive` writes changes, or what the log hash makes of events
// and actions: a journal is replayed by programs with the same number alone.
constexpr uint32_t kStateVersion = 14;

// What happened since the start.
struct Counters {
  uint64_t submitted = 0;
  uint64_t succeeded = 0;
  uint64_t function_errors = 0;
  uint64_t rejected = 0;
  uint64_t cold_starts = 0;  // invocations by start class
  uint64_t gpu_cold_starts = 0;
  uint64_t warm_starts = 0;
  uint64_t host_runs = 0;    // of these, as CPU variants on the host
  uint64_t host_trials = 0;  // of these, to learn how long they take there
  uint64_t sandboxes_started = 0;
  uint64_t evictions = 0;
  uint64_t timeouts = 0;
  uint64_t returned = 0;  // dispatched, then put back into the queue: their place was no more
  uint64_t moves_in = 0;  // of device memory, done
  uint64_t moves_out = 0;
  uint64_t failed_moves = 0;
  uint64_t moved_bytes = 0;    // both ways
  uint64_t prefetches = 0;     // moves in that were begun before the turn of the flow had come
  uint64_t prefetch_hits = 0;  // invocations that found a prefetch done or under way
  uint64_t fetches = 0;        // of memory that was offloaded, granted to programs that asked
  uint64_t refused_fetches = 0;
  uint64_t ignored_events = 0;  // about something that is over, such as a late answer
};

// What `explain` tells of an invocation that has no outcome yet.
struct Explanation {
  InvocationState state = InvocationState::kQueued;
  FunctionId function;
  Duration waited{};  // for its turn
  scheduling::WaitReason reason = scheduling::WaitReason::kNone;
  // Why it runs on the host although its function uses a GPU, and how long it was expected to take
  // when that was decided; zero where nothing was known.
  scheduling::HostReason host_reason = scheduling::HostReason::kNone;
  Duration expected_with_gpu{};
  Duration expected_with_host{};
};

// A run that holds a token of a GPU: what waits for the token waits for its end.
struct TokenHolder {
  DeviceId device;
  FunctionId function;
  InvocationId invocation;  // zero: it has its outcome, and its sandbox is not gone yet
  InvocationState state = InvocationState::kRunning;  // kStarting: of its sandbox
  Duration held{};                                    // since it was dispatched
  std::optional<Duration> most_left;  // until its timeout ends it; none: it has no timeout
};

class Dispatcher {
 public:
  // `policy` orders the functions that use a GPU; those without take turns by `host_policy` (null:
  // first come, first served).
  Dispatcher(DispatchOptions options, std::unique_ptr<scheduling::Policy> policy,
             std::unique_ptr<scheduling::Policy> host_policy = nullptr);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Takes one event and appends what is to be done about it. `now` never goes back. Each submitted
  // invocation gets exactly one CompleteInvocation; an event about something unknown or over is
  // counted and otherwise ignored.
  void handle(const Event& event, Instant now, std::vector<Action>& out);

  // Fetch into the caches what an event will look at, for a simulator, which alone knows what comes
  // next: the flow of a function that has an arrival soon; the sandbox that it goes to if nothing
  // happens before; all of a run that ends, in a sandbox on that device (by their places in
  // fleet()).
  void fetch_flow(FunctionId function) const;
  void fetch_place(FunctionId function) const;
  void fetch_end(FunctionId function, scheduling::SandboxSlot sandbox, uint32_t device) const;

  // For status and metrics; all read-only.
  const DispatchOptions& options() const { return options_; }
  const Counters& counters() const { return counters_; }
  uint64_t log_hash() const { return log_.hash(); }
  size_t queued() const { return queues_.queued(); }
  size_t queued_synchronous() const { return queues_.queued_synchronous(); }
  size_t in_flight() const { return queues_.in_flight(); }
  // Indexed by FunctionId; some are not registered.
  const scheduling::Flows& flows() const { return flows_; }
  scheduling::FlowStatus status(FunctionId function, Instant now) const;
  const scheduling::Policy& policy() const;
  const scheduling::Fleet& fleet() const;       // the GPUs and the sandboxes on them
  const scheduling::Fleet& host_fleet() const;  // the sandboxes without GPU, of CPU variants too
  bool draining() const { return draining_; }
  // Draining, and nothing runs or lives any more. Asynchronous invocations may still be queued.
  bool drained() const;
  std::optional<Explanation> explain(InvocationId id, Instant now) const;
  // By device, the longest run first.
  std::vector<TokenHolder> token_holders(Instant now) const;

  // Called when an invocation is given its place, before anything of that is done: for whoever
  // explains decisions, which it must not change.
  using Watcher = std::function<void(InvocationId, FunctionId, DeviceId)>;
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }

  // Its whole state. A dispatcher with the same options and policies that was restored from it does
  // from then on what this one does, bit for bit. Not while an event is handled.
  std::string snapshot() const;
  // False if these bytes are no snapshot of such a dispatcher; this one is then good for nothing.
  [[nodiscard]] bool restore(std::string_view snapshot);

 private:
  // Devices, sandboxes and a policy that belong together: one device pool for GPUs, one for the
  // host.
  struct DevicePool;
  struct DevicePoolSlot {
    DevicePool& device_pool;
    scheduling::SandboxSlot slot;
  };

  void on(const FunctionRegistered& event);
  void on(const FunctionRemoved& event);
  void on(const InvocationSubmitted& event);
  void on(const InvocationCancelled& event);
  void on(const SandboxReady& event);
  void on(const SandboxExited& event);
  void on(const InvocationFinished& event);
  void on(const DeviceReading& event);
  void on(const DeviceTaken& event);
  void on(const TimerFired& event);
  void on(const DrainStarted& event);
  void on(const MemoryMoved& event);
  void on(const MemoryWanted& event);

  // Dispatching.
  void decide(DevicePool& device_pool);
  void dispatch(DevicePool& device_pool, const scheduling::Decision& decision);
  void start_in_new_sandbox(DevicePool& device_pool, InvocationSlot invocation,
                            const scheduling::Place& place);
  void start_planned(DevicePool& device_pool);
  void run_ready(DevicePool& device_pool);
  void run(DevicePool& device_pool, scheduling::SandboxSlot sandbox, InvocationSlot invocation);
  void time_run(InvocationSlot invocation);
  uint64_t& start_counter(StartClass start);
  void note_wait_reasons();

  // Functions that run on either processor.
  void send_to_host();
  void dispatch_on_host(const scheduling::HostChoice& choice);
  void expect_end(PendingInvocation& invocation, bool warm);
  std::vector<scheduling::GpuRun> runs_on_gpus() const;
  void leave_processor(InvocationSlot invocation);
  void learn_run(const PendingInvocation& invocation, Duration execution);
  void note_host_failure(const PendingInvocation& invocation);
  void note_host_success(const PendingInvocation& invocation);
  unsigned gpu_concurrency_of(const scheduling::Flow& flow, bool outside_top_share) const;
  void rank_functions();
  unsigned reserved_on_host() const;
  bool may_wait(const scheduling::Flow& flow) const;
  scheduling::WaitReason why_waiting(FunctionId function) const;

  // Ends.
  std::optional<Error> refusal_of(const InvocationSubmitted& event) const;
  void reject_now(InvocationId id, Error error, Duration retry_after = {});
  void reject_queued(InvocationSlot invocation, Error error);
  void reject_queue(FunctionId function, const Error& error);
  void note_shedding(FunctionId function);
  void complete(InvocationSlot invocation, Outcome outcome, std::optional<Error> error,
                std::string error_type);
  Duration memory_time_of(const PendingInvocation& invocation) const;
  void expire_invocation(InvocationSlot invocation);
  void expire_sandbox(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  bool restart(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  void start_failed(DevicePool& device_pool, scheduling::SandboxSlot sandbox,
                    const SandboxExited& event);

  // Sandboxes.
  void start_sandbox(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  void stop_sandbox(DevicePool& device_pool, scheduling::SandboxSlot sandbox, StopReason reason);
  void remove_sandbox(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  void after_run(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  std::optional<StopReason> must_go(const DevicePool& device_pool,
                                    const scheduling::Sandbox& sandbox) const;
  void stop_idle(FunctionId function, StopReason reason);

  // Memory that moves.
  void await_memory(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  void memory_came(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  void move_in(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  void move_out(DevicePool& device_pool, scheduling::SandboxSlot sandbox, MoveDepth depth);
  void move_in_wanting(DevicePool& device_pool);
  void move_in_failed(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  void move_out_failed(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  void fail_move(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  void forget_moves(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  bool relieve(DevicePool& device_pool, const std::optional<scheduling::MemoryVictim>& victim);
  void make_room(DevicePool& device_pool);
  bool make_room_beside_taken(DevicePool& device_pool);
  void prefetch(DevicePool& device_pool);
  void prefetch_for(DevicePool& device_pool, FunctionId function);
  void grant_fetches(DevicePool& device_pool);
  void end_fetch(DevicePool& device_pool, scheduling::SandboxSlot sandbox, bool granted);

  // Places that are no more.
  void return_to_queue(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  void drop_planned(DevicePool& device_pool,
                    const std::function<bool(const scheduling::Sandbox&)>& drops);
  void drop_planned_beyond(uint32_t device);
  bool place_stands(const DevicePool& device_pool, const scheduling::Sandbox& sandbox) const;
  void stop_hangs(DevicePool& device_pool, scheduling::SandboxSlot sandbox);
  void lose_device(uint32_t device);

  std::optional<Duration> most_left(scheduling::SandboxSlot sandbox, Instant now) const;
  bool waits_for_token(const PendingInvocation& invocation) const;
  bool waits_for_moves(const PendingInvocation& invocation) const;
  bool knows(FunctionId function) const;
  DevicePool& device_pool_of(FunctionId function);
  const DevicePool& device_pool_of(FunctionId function) const;
  std::optional<DevicePoolSlot> find_sandbox(SandboxId id);
  scheduling::View view_of(const DevicePool& device_pool) const;
  void archive(StateArchive& archive);
  void archive(StateArchive& archive, DevicePool& device_pool);
  void find_again();
  void arm_timer();

  DispatchOptions options_;
  scheduling::Flows flows_;
  Queues queues_;
  ActionLog log_;
  uint64_t sandbox_ids_ = 0;
  std::unique_ptr<DevicePool> gpu_;
  std::unique_ptr<DevicePool> host_;
  bool ranks_stale_ = false;            // HybridRule::kTopShare: a speed-up may have changed
  unsigned functions_without_gpu_ = 0;  // that are registered
  RunList gpu_runs_;                    // dispatched to a GPU and not over
  std::vector<Instant> away_since_;     // by GPU: when it was last found not to be healthy
  Instant ask_again_ = kNever;          // when time alone may send something to the host
  std::vector<FunctionId> look_ahead_;  // while memory is fetched ahead
  Instant armed_ = kNever;
  bool draining_ = false;
  Counters counters_;
  Watcher watcher_;
};

}  // namespace lambent::dispatch
