// Invariants: what must hold of a Dispatcher after every event, whatever goes wrong around it. Told
// of each event with its actions by the soak test and by property tests, on the thread that drives
// the dispatcher.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

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
  kVirtualTime,       // the global one never goes back and is the least of those at work
  kOverRun,           // nobody is served further than T ahead, unless counted as conserving
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
  // Whether a function has one batch at a time, whatever its max_concurrency.
  bool one_batch_per_function = false;
  // Whether a device may idle although an invocation that fits waits, for a device of its own: then
  // only a function that has nothing at work must find one in time.
  bool may_idle = false;
  // What costs a look at everything that exists is looked at every so many events.
  unsigned scan_period = 16;
};

// Keeps accounts of its own, from events and actions alone, so that an error in dispatch's or the
// fleet's accounting shows. Costs a few look-ups per event, and the scans.
class Invariants {
 public:
  // `dispatcher` outlives it and has had no event yet.
  Invariants(const dispatch::Dispatcher& dispatcher, InvariantOptions options);

  // After every event, with exactly the actions that it led to.
  void check(const dispatch::Event& event, Instant now,
             const std::vector<dispatch::Action>& actions);
  // When nothing is left to happen: every sandbox that was stopped is gone, every timer has fired.
  void check_at_rest();

  // For whoever drives the dispatcher and finds something that is not seen from here.
  void violate(Invariant invariant, std::string what);

  // The first that was found; nothing is checked from there on.
  const std::optional<Violation>& violation() const { return violation_; }
  uint64_t events() const { return events_; }

 private:
  enum class State { kStarting, kReady, kBusy, kIdle, kStopping };
  // A sandbox from StartSandbox until SandboxExited.
  struct Process {
    FunctionId function;
    uint64_t revision = 0;
    uint32_t device = 0;
    Bytes memory;
    State state = State::kStarting;
    bool cpu_variant = false;                   // of a function that uses a GPU, on the host
    bool at_work = false, holds_place = false;  // a place: a token or a start slot
    Bytes held;                                 // of its memory, what counts on its device
    // Under MemoryRule::kMoveIdle.
    bool movable = true, checkpoints = false;
    enum class Where { kIn, kMovingOut, kOut, kMovingIn } where = Where::kIn;
    bool deep = false;  // with its context
    Bytes left;
    Bytes offloaded;              // on the host while the rest is in
    std::optional<Bytes> wanted;  // of that, while it is not answered
    Bytes on_host;
    Instant move_limit = kNever;  // when the move, or the wait for one, must be over
    InvocationId invocation;      // while busy
    Duration start_limit{};
    Instant since{};
    unsigned device_losses = 0;  // of its device, when it was started
  };
  // An invocation from InvocationSubmitted until CompleteInvocation.
  struct Live {
    FunctionId function;
    bool asynchronous = false;
    Instant submitted{};
    Instant waiting_since{};
    bool running = false;
    SandboxId sandbox;
    Instant run_limit = kNever;
  };
  struct Function {
    bool registered = false;
    dispatch::FunctionProfile profile;
    unsigned waiting = 0;             // invocations that do not run
    unsigned starting = 0, busy = 0;  // processes
    unsigned as_cpu_variant = 0;      // of these, on the host although it uses a GPU
    Duration lost_grace_period{};     // see check_grace_period
  };
  struct Device {
    bool known = false, healthy = true, lost = false;
    unsigned losses = 0;
    scheduling::DeviceOptions options;
    Bytes memory, occupied, taken;
    unsigned at_work = 0, places = 0, ready = 0;  // of the places, those of ready ones
    unsigned processes = 0, idle = 0, without_context = 0;
    Bytes idle_memory;
  };

  // What the world told (invariants.cc).
  void see(const dispatch::FunctionRegistered& event);
  void see(const dispatch::FunctionRemoved& event);
  void see(const dispatch::InvocationSubmitted& event);
  void see(const dispatch::InvocationCancelled&) {}
  void see(const dispatch::SandboxReady& event);
  void see(const dispatch::SandboxExited& event);
  void see(const dispatch::InvocationFinished& event);
  void see(const dispatch::DeviceReading& event);
  void see(const dispatch::DeviceTaken& event);
  void see(const dispatch::TimerFired&);
  void see(const dispatch::DrainStarted&) { draining_ = true; }
  void see(const dispatch::MemoryMoved& event);
  void see(const dispatch::MemoryWanted& event);
  // What dispatch wants.
  void see(const dispatch::StartSandbox& action);
  void see(const dispatch::StartInvocation& action);
  void see(const dispatch::StopSandbox& action);
  void see(const dispatch::CompleteInvocation& action);
  void see(const dispatch::WakeAt& action);
  void see(const dispatch::MoveMemoryIn& action);  // these in invariants_memory.cc
  void see(const dispatch::MoveMemoryOut& action);
  void see(const dispatch::GrantMemory& action);
  void check_host_memory();
  void check_arrival(const Process& process, const char* what);
  void check_beside_taken();
  void settle();
  void check_limits();
  void check_queues(const dispatch::Event& event);

  void change(Process& process, State state);
  void hold(Process& process) const;
  // What a process in its place holds under MemoryRule::kMoveIdle.
  void hold_moving(Process& process) const;
  void move(Process& process, Process::Where where, bool deep);
  void count(const Process& process, int by);
  void wait_anew(FunctionId function);
  Function& function(FunctionId id);

  // Looks at all there is (invariants_scans.cc).
  void scan();
  void check_virtual_times();
  void check_conservation();
  void check_grace_period();
  void check_ready();
  unsigned planned_on(uint32_t device) const;
  void check_deadlines(bool after_timer);
  void check_accounts();
  void check_slots(const scheduling::Fleet& fleet, const scheduling::Device& device);
  void check_places(const std::vector<unsigned>& planned);

  const dispatch::Dispatcher& dispatcher_;
  InvariantOptions options_;
  std::optional<Violation> violation_;
  uint64_t events_ = 0;
  Instant now_{};
  Instant before_{};  // when the event before was
  Instant armed_ = kNever;
  bool timer_fired_ = false;
  bool draining_ = false;
  std::vector<bool> used_;           // by SandboxId
  std::vector<Function> functions_;  // by FunctionId
  std::vector<Device> devices_;      // by DeviceId; the host is the first
  unsigned gpu_processes_ = 0, gpu_idle_ = 0, gpu_stopping_ = 0;
  Bytes on_host_;
  std::unordered_map<SandboxId, Process> processes_;
  std::unordered_map<InvocationId, Live> live_;
  // Of the event at hand: what must get its outcome, how, and sandboxes whose invocation is over.
  std::optional<InvocationId> must_complete_;
  std::optional<bool> handler_succeeded_;
  std::vector<SandboxId> answered_;
  Duration global_{};
  uint64_t conserving_ = 0;
  std::vector<Duration> virtual_times_;
};

}  // namespace lambent::simulator
