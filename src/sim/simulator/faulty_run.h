// One run of a faulty world: the processes and devices in it, and all that happens to them. Only
// run_faulty_world uses it, on its thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/simulator/fault_chances.h"
#include "sim/simulator/faulty_scene.h"
#include "sim/simulator/faulty_world.h"
#include "sim/simulator/timeline.h"

namespace lambent::simulator {

class FaultyRun {
 public:
  explicit FaultyRun(const FaultyWorldOptions& options);

  FaultyWorldResult run();

 private:
  struct Process {
    FunctionId function;
    uint32_t device = 0;
    bool alive = true, running = false;
    // Whether its memory is on the device, and what it does once it is.
    bool memory_in = true;
    bool wants = false;           // of what is offloaded, and was not answered
    bool given_too_late = false;  // an invocation, when it had ended
    std::function<void()> awaits_memory;
    uint64_t runs = 0;
    InvocationId invocation;
    std::set<InvocationId> others;  // that run beside that one
  };
  struct Device {
    bool lost = false, silent = false;
    Instant well_at{};
  };

  std::unique_ptr<scheduling::Policy> make_policy() const;
  InvariantOptions invariant_options() const;

  void step();

  // ---- Dispatch (faulty_world.cc)

  void give(const dispatch::Event& event);
  void give_twin(const dispatch::Event& event);
  void trace(const dispatch::Event& event, const std::vector<dispatch::Action>& actions);
  // A message of a sandbox, on its way to dispatch.
  void report(const dispatch::Event& event);

  // ---- What becomes of sandboxes (faulty_sandboxes.cc)

  void perform(const dispatch::StartSandbox& action);
  void perform(const dispatch::StartInvocation& action);
  void perform(const dispatch::StopSandbox& action);
  void perform(const dispatch::CompleteInvocation& action) { waiting_.erase(action.invocation); }
  void perform(const dispatch::WakeAt& action);
  void perform(const dispatch::MoveMemoryIn& action);
  void perform(const dispatch::MoveMemoryOut& action);
  void perform(const dispatch::GrantMemory& action) { processes_[action.sandbox].wants = false; }
  void run_beside(SandboxId id, InvocationId invocation);
  void end_beside(SandboxId id, InvocationId invocation, Duration took);
  void want_memory(SandboxId id);
  void move(SandboxId id, dispatch::MoveDirection direction);
  // Of each move there is one answer: neither twice nor while another goes on.
  void end_move(const dispatch::MemoryMoved& moved);
  void die(SandboxId id, const std::string& error_type, bool undelivered);
  void end_run(SandboxId id, uint64_t run, Duration took);

  // ---- Arrivals and incidents (faulty_incidents.cc)

  void arrive(const FaultyScene::Arrival& arrival);
  void plan_incidents();
  void lose_device();
  void silence_device();
  void take_of_device();
  void kill_executor();
  void read_device(uint32_t index);
  void read_devices();
  void step_clock() { timeline_.pass(seconds(between(random_, 60, 1200))); }

  // From then on no function is to have instances that are ready: the world can come to rest.
  void keep_no_instances();
  void register_function(dispatch::FunctionProfile& profile);
  void redeploy();
  void deploy_stale();
  void remove_function();
  void send_stray();
  void fire_early() { give(dispatch::TimerFired{}); }
  void drain() { give(dispatch::DrainStarted{}); }

  const FaultyWorldOptions& options_;
  FaultyScene scene_;
  SeededRandom random_;
  FaultChances chances_;
  dispatch::Dispatcher dispatcher_;
  std::unique_ptr<dispatch::Dispatcher> twin_;
  Invariants invariants_;
  FaultyWorldResult result_;
  Timeline timeline_;
  std::map<SandboxId, Process> processes_;
  std::set<InvocationId> waiting_;
  std::set<FunctionId> removed_;
  std::vector<Device> devices_;
  bool keeps_instances_ = true;
  Duration span_{};
  Instant wake_ = kNever;
  uint64_t incidents_left_ = 0;
};

}  // namespace lambent::simulator
