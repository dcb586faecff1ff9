// WorldAccounts: what exists around a dispatcher - sandboxes, invocations, functions, devices - by
// its events and actions, and the sums that follow from it. A value of Invariants, which writes it,
// and is read by InvariantScans.
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "decide/dispatch/dispatcher.h"

namespace lambent::simulator {

class WorldAccounts {
 public:
  enum class State { kStarting, kReady, kBusy, kIdle, kStopping };
  // A sandbox from StartSandbox until SandboxExited.
  struct Process {
    FunctionId function;
    uint64_t revision = 0;
    uint32_t device = 0;
    std::vector<uint32_t> beside;  // the other devices of one that is on several
    Bytes memory;                  // on each
    State state = State::kStarting;
    bool cpu_variant = false;                   // of a function that uses a GPU, on the host
    bool at_work = false, holds_place = false;  // a place: a token or a start slot
    Bytes held;                                 // of its memory, what counts on its device
    // Under MemoryRule::kMoveIdle.
    bool movable = true, checkpoints = false;
    enum class Where { kIn, kMovingOut, kOut, kMovingIn } where = Where::kIn;
    bool deep = false;  // with its context
    Bytes left;
    Bytes offloaded;                   // on the host while the rest is in
    std::optional<Bytes> wanted;       // of that, while it is not answered
    Bytes on_host;                     // of all its devices
    Instant move_limit = kNever;       // when the move, or the wait for one, must be over
    InvocationId invocation;           // while busy; one of them
    std::vector<InvocationId> others;  // that are in it beside that one
    bool takes_no_more = false;        // it is about to end
    bool ahead = false;                // no invocation waited for it when it was started
    bool was_kept = false;  // its function has, or had, min_instances since it was started
    Duration start_limit{};
    Instant since{};
    unsigned device_losses = 0;  // of its devices, when it was started

    bool is_on(uint32_t one) const {
      return one == device || std::find(beside.begin(), beside.end(), one) != beside.end();
    }
    Bytes memory_of_all() const { return memory * (beside.size() + 1); }
    // Calls visit(device) for each that it is on.
    template <typename Visit>
    void for_each_device(Visit visit) const {
      visit(device);
      for (const uint32_t other : beside) visit(other);
    }
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

  explicit WorldAccounts(const dispatch::DispatchOptions& limits);

  // A sandbox that is not in `processes` yet.
  void add(SandboxId id, Process process);
  void remove(SandboxId id);
  // It holds what it holds in that state from now on.
  void change(Process& process, State state);
  void move(Process& process, Process::Where where, bool deep);
  // So much of what is offloaded is on the device again.
  void fetch(Process& process, Bytes fetched);

  // How often its devices were lost, together; and whether all are healthy.
  unsigned losses_of(const Process& process) const;
  bool is_healthy(const Process& process) const;

  // The function's entry; it is made if there is none.
  Function& function(FunctionId id);
  // All of its invocations that do not run begin to wait now.
  void restart_waits(FunctionId id, Instant now);

  std::unordered_map<SandboxId, Process> processes;
  std::unordered_map<InvocationId, Live> live;
  std::vector<Function> functions;  // by FunctionId
  std::vector<Device> devices;      // by DeviceId; the host is the first
  // Of all processes on GPUs.
  unsigned gpu_processes = 0, gpu_idle = 0, gpu_stopping = 0;
  Bytes on_host;

 private:
  void hold(Process& process) const;
  // What a process in its place holds under MemoryRule::kMoveIdle.
  void hold_moving(Process& process) const;
  void count(const Process& process, int by);

  const dispatch::DispatchOptions& limits_;
};

}  // namespace lambent::simulator
