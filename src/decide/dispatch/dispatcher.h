// Dispatcher: the life of every invocation as a state machine: an event in, the actions it calls
// for out. Pure and deterministic; the worker, the simulator and tests drive it, each on one
// thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decide/dispatch/action.h"
#include "decide/dispatch/counters.h"
#include "decide/dispatch/event.h"
#include "decide/dispatch/invocation_table.h"
#include "decide/dispatch/options.h"
#include "decide/scheduling/fleet.h"
#include "decide/scheduling/flow_set.h"
#include "decide/scheduling/hybrid.h"
#include "decide/scheduling/policy.h"

namespace lambent::dispatch {

// Raised whenever what `Dispatcher::archive` writes changes, or what the log hash makes of events
// and actions: a journal is replayed only by programs that read its number. 15 added what a node
// with tenants has beyond others, at the end: one without has the state that it had with 14. 16
// added max_queue_time in the same way, and to a segment's header that and whether Density adapts;
// one without either has the state that it had. 17 added the accounts of versions in the same way.
// 18 added to the header what is foreseen; where nothing is, the state is that of before. 19 added
// min_instances and keep_alive as 17 did its own. 20 added the sandboxes that several invocations
// share, and 21 those that are on several devices, in the same way. 22 added sandboxes on devices
// that the program before left, for which the state is as it was, and to the header whether Density
// weighs what waits, and what it counts for that; where it does not, the state is that of before.
// 23 added what each invocation waited for longest, and what weighs_returns of Density counts, and
// both to the header; in journals of before it does not, outcomes name the last reason of a wait,
// and the state is as it was. 24 added to the header whether memory of sandboxes on several devices
// moves; where it does not, the state is as it was.
constexpr uint32_t kStateVersion = 24;
constexpr uint32_t kVersionOfGangMoves = 24;
constexpr uint32_t kVersionOfLongestWaits = 23;
constexpr uint32_t kVersionOfWeighedQueues = 22;
constexpr uint32_t kVersionOfForesight = 18;
constexpr uint32_t kVersionOfAdapts = 16;
constexpr uint32_t kOldestStateVersion = 14;

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

// How a function stands with its min_instances.
struct InstanceStatus {
  unsigned wanted = 0;
  unsigned ready = 0, starting = 0;  // of the present revision, whatever they do
  uint32_t failures = 0;    // starts, or rests, that ended by themselves, one after another
  Instant next_start{};     // not before; of the past: at once
  bool hands_over = false;  // those of before serve until these are ready
};

// What a tenant has and uses now.
struct TenantStatus {
  TenantId id;
  double weight = 1;
  // The GPU time that its runs were charged, divided by its weight, from when there was more than
  // one tenant or one was told of. One that comes back from idleness is put at the least of those
  // with work: only differences between those with work mean something. Zero under a policy that
  // orders by other things.
  Duration virtual_service{};
  uint64_t running = 0;  // invocations that were dispatched and are not over
  uint64_t waiting = 0;
  // Of runs that ended in the hour before, up to ten seconds more; from when it was told of.
  Duration gpu_time_in_hour{};
  // Of its sandboxes, idle ones included: GPU memory that they are admitted with, and limits of the
  // host's. Those that are being stopped do not count.
  Bytes gpu_memory, host_memory;
  // The same of those that start or work, of invocations that wait, and of the largest function.
  // At work only while any tenant has a quota of memory.
  scheduling::TenantMemory at_work, pending, largest;
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

  // Fetch into the caches what an event will look at, for a simulator, which knows what comes
  // next: the flow of a function that has an arrival soon; the sandbox that it goes to if nothing
  // happens before; all of a run that ends, in a sandbox on that device (by their places in
  // fleet()).
  void fetch_flow(FunctionId function) const;
  void fetch_place(FunctionId function) const;
  void fetch_end(FunctionId function, scheduling::SandboxSlot sandbox, uint32_t device) const;

  // For status and metrics; all read-only.
  const DispatchOptions& options() const;
  const Counters& counters() const;
  uint64_t log_hash() const;
  size_t queued() const;
  size_t queued_synchronous() const;
  size_t in_flight() const;
  // Indexed by FunctionId; some are not registered.
  const scheduling::Flows& flows() const;
  // Those of them with something waiting for a GPU.
  const scheduling::FlowSet& waiting_for_gpu() const;
  scheduling::FlowStatus status(FunctionId function, Instant now) const;
  const scheduling::Policy& policy() const;
  const scheduling::Fleet& fleet() const;       // the GPUs and the sandboxes on them
  const scheduling::Fleet& host_fleet() const;  // the sandboxes without GPU, of CPU variants too
  uint64_t starts_ahead() const;                // sandboxes started ahead of calls so far
  InstanceStatus instances(FunctionId function) const;
  // Invocations that joined a sandbox at work so far; and those of the function that are in one
  // beside another, which its flow does not count.
  uint64_t joins() const;
  size_t joined(FunctionId function) const;
  // The number of the next sandbox, for one that was kept (SandboxReady::kept_of).
  SandboxId next_sandbox() const;
  bool draining() const;
  // Draining, and nothing runs or lives any more. Asynchronous invocations may still be queued.
  bool drained() const;
  std::optional<Explanation> explain(InvocationId id, Instant now) const;
  // By device, the longest run first.
  std::vector<TokenHolder> token_holders(Instant now) const;
  // Tenants that were told of or have functions, in the order in which they came. Looks at all
  // flows that wait and all sandboxes.
  std::vector<TenantStatus> tenant_status(Instant now) const;
  const scheduling::Tenants& tenants() const;

  // Called when an invocation is given its place, before anything of that is done: for explaining
  // decisions, which it must not change.
  using Watcher = std::function<void(InvocationId, FunctionId, DeviceId)>;
  void watch(Watcher watcher);

  // For a simulation that knows what comes: scheduling::Foresight::ask. Such a dispatcher is no
  // longer a function of its events.
  void foretell(scheduling::Foresight::Oracle oracle);

  // Its whole state. A dispatcher with the same options and policies that was restored from it does
  // from then on what this one does, bit for bit. Not while an event is handled.
  std::string snapshot() const;
  // False if these bytes are no snapshot of such a dispatcher; this one is then good for nothing.
  [[nodiscard]] bool restore(std::string_view snapshot);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lambent::dispatch
