// Simulation: runs the real Dispatcher in virtual time on modelled devices and functions. Used by
// tests and by `lambent simulate`; single-threaded, deterministic for a seed.
#pragma once

#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/dispatch/foreseen_starts.h"
#include "decide/scheduling/indexed_heap.h"
#include "decide/scheduling/moving_average.h"
#include "sim/simulator/model.h"
#include "sim/simulator/modelled_device.h"
#include "sim/simulator/next_end.h"
#include "sim/simulator/number_map.h"

namespace lambent::simulator {

struct Arrival {
  Instant at{};
  FunctionId function;
  bool asynchronous = false;
  // What this one takes, by itself on its device; zero: what its function's model says.
  Duration execution{};
};

// The next arrival, in the order of time; nullopt when there are no more.
using ArrivalSource = std::function<std::optional<Arrival>()>;
// From an array that is sorted by time and outlives the source.
ArrivalSource arrivals_from(const std::vector<Arrival>& arrivals);

struct SimulatedInvocation {
  FunctionId function;
  Instant submitted{};
  Instant completed{};
  dispatch::CompleteInvocation outcome;
};
using OutcomeSink = std::function<void(const SimulatedInvocation&)>;
// Sees every event with the actions that it led to; for tests and journals.
using Observer =
    std::function<void(const dispatch::Event&, Instant, const std::vector<dispatch::Action>&)>;

struct SimulationOptions {
  dispatch::DispatchOptions dispatch;
  DeviceModel device;
  FaultModel faults;
  std::vector<FunctionModel> functions;
  // Told before the functions; and changes of them, so long after the beginning.
  std::vector<dispatch::TenantChanged> tenants;
  std::vector<std::pair<Duration, dispatch::TenantChanged>> tenant_changes;
  uint64_t seed = 1;
  scheduling::Foresight::Oracle oracle;  // what a clairvoyant knows; empty: nothing is
};

class Simulation {
 public:
  Simulation(SimulationOptions options, std::unique_ptr<scheduling::Policy> policy,
             OutcomeSink sink);

  void observe(Observer observer) { observer_ = std::move(observer); }
  // Runs until nothing is left to do but to let idle sandboxes rest.
  void run(const ArrivalSource& arrivals);
  // One more invocation after so long, made while an outcome is told: for clients that send the
  // next one when they have their answer.
  void submit_after(Duration delay, FunctionId function);
  // Lets the dispatcher have an event at the present instant; for tests.
  void inject(const dispatch::Event& event) { give(event); }

  Instant now() const { return now_; }
  const dispatch::Dispatcher& dispatcher() const { return dispatcher_; }
  // Of sandboxes that were started ahead of calls.
  const dispatch::ForeseenStarts::Counts& foreseen() const { return foreseen_.counts(); }
  // The time during which the device had something to run.
  Duration busy(uint32_t device) const { return devices_[device].busy(now_); }
  // The same as a share of the time so far.
  double utilisation(uint32_t device) const;

 private:
  // When something happens to a sandbox; of equal instants, the one made first.
  struct Due {
    Instant at{};
    uint64_t order = 0;
    auto operator<=>(const Due&) const = default;
  };
  using RunSlot = uint32_t;
  // A sandbox that exists, and what it does. What every run looks at comes first, in one line of
  // the processor's cache: with thousands of functions it mostly has to be fetched.
  struct alignas(64) Run {
    SandboxId sandbox;
    InvocationId invocation;
    uint32_t device = 0;
    FunctionId function;
    Bytes memory;       // on the device, when all of it is there
    Instant started{};  // its invocation
    Duration work{};    // of that, which begins once its memory is there
    // On a GPU: its place in the dispatcher's fleet.
    scheduling::SandboxSlot place = scheduling::kNoSandbox;
    bool awaits_memory : 1 = false;
    bool starting : 1 = false;
    bool loads : 1 = false;  // its constants, before it is ready
    bool is_kernel : 1 = false;
    bool was_out : 1 = false;
    bool fails : 1 = false;
    bool crashes : 1 = false;
    bool busy : 1 = false;    // with `invocation`
    bool joins : 1 = false;   // it is no sandbox, but one more invocation in that one
    bool copies : 1 = false;  // what is on the link is a copy of its own
    uint32_t step = 0;        // of its phases: how many have begun
    // Moves.
    Bytes constants;
    Bytes outside;    // what of `memory` is off the device
    Bytes offloaded;  // of that, what stays there when the rest moves in
    Bytes moving;     // what is on its way
    Bytes carried;    // of that, what goes over the link
    Instant move_began{};
    uint64_t beside = 0;  // the other devices of one that is on several, as bits by their index
    unsigned links = 0;   // on which a move is not over

    unsigned devices() const { return 1 + static_cast<unsigned>(std::popcount(beside)); }
    // Calls visit(index) for each device that it is on.
    template <typename Visit>
    void on_devices(Visit visit) const {
      visit(device);
      scheduling::for_each_device_in(beside, visit);
    }
  };

  void give(const dispatch::Event& event);
  void perform(const dispatch::StartSandbox& action);
  void perform(const dispatch::StartInvocation& action);
  void perform(const dispatch::StopSandbox& action);
  void perform(dispatch::CompleteInvocation& action);  // which is used up
  void perform(const dispatch::WakeAt& action) { wake_ = action.instant; }
  void perform(const dispatch::MoveMemoryIn& action);
  void perform(const dispatch::MoveMemoryOut& action);
  void perform(const dispatch::GrantMemory&) {}  // models want only what they brought in
  void begin_work(RunSlot slot);
  // Goes on with its next phase, `ahead` of which is done; false if there is none.
  bool begin_step(RunSlot slot, Duration ahead = {});
  void end_run(RunSlot slot);
  void carry(RunSlot slot, uint32_t device, dispatch::MoveDirection direction, Bytes bytes,
             Duration longer = {});
  void begin_move(RunSlot slot, dispatch::MoveDirection direction, Bytes bytes);
  void end_move_on(uint32_t link);
  void finish_on(uint32_t device);
  void finish_next();
  void take_due();
  void submit(const Arrival& arrival);
  // After every change to what runs on a device, moves on a link, or pauses on the host: `source`
  // is its place in finishes_.
  void note_next(size_t source);
  uint32_t link_of(uint32_t device, dispatch::MoveDirection direction) const {
    return 2 * device + (direction == dispatch::MoveDirection::kOut ? 1 : 0);
  }
  RunSlot add(Run run);
  void remove(RunSlot slot);
  // Off its device and its links, with what it does there.
  void take_off(RunSlot slot);
  void take_off_alone(RunSlot slot);
  RunSlot slot_of(SandboxId sandbox);
  // A run for one more invocation in a sandbox at work, which goes on beside the others.
  RunSlot beside(RunSlot slot);
  void after(Duration delay, dispatch::Event event);
  void change_starting(uint32_t device, int by);
  void read_devices();
  uint32_t device_of(DeviceId id) const;

  SimulationOptions options_;
  dispatch::Dispatcher dispatcher_;
  OutcomeSink sink_;
  Observer observer_;
  bool counts_foreseen_ = false;
  dispatch::ForeseenStarts foreseen_;
  SeededRandom random_;
  std::vector<std::vector<dispatch::Action>> spare_;  // action lists to use again
  std::vector<FunctionModel> models_;                 // by FunctionId
  std::vector<ModelledDevice> devices_;               // the host is the last one
  // Of each GPU the link to it, and then the one from it. All that moves gets an equal share.
  std::vector<ModelledDevice> links_;
  ModelledDevice on_host_{0.0};  // phases of runs on the host; none waits for a processor
  std::vector<unsigned> starting_;
  std::vector<Duration> busy_at_reading_;
  std::vector<scheduling::MovingAverage> averages_;
  // Of the devices that will finish something, after these of the links, and of on_host_.
  NextEnd finishes_;
  std::vector<Run> runs_;  // by slot, which is the key on devices and links
  std::vector<RunSlot> free_runs_;
  NumberMap<RunSlot> slots_;  // by SandboxId
  std::map<SandboxId, std::vector<RunSlot>> joined_;
  NumberMap<Instant> submitted_;      // by the low half of the InvocationId
  NumberMap<Duration> executions_;    // the same, of those that have their own
  scheduling::IndexedHeap<Due> due_;  // slots of due_events_
  std::vector<dispatch::Event> due_events_;
  std::vector<uint32_t> free_due_;
  bool reads_utilisation_ = false;
  Instant next_reading_ = kNever;
  Instant wake_ = kNever;
  Instant now_{};
  uint64_t due_count_ = 0;
  uint64_t invocations_ = 0;
};

}  // namespace lambent::simulator
