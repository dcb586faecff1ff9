// Invariants: what must hold of a Dispatcher after every event, whatever goes wrong around it. Told
// of each event with its actions by the soak test and by property tests, on the thread that drives
// the dispatcher.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "decide/dispatch/dispatcher.h"
#include "sim/simulator/invariant.h"
#include "sim/simulator/invariant_scans.h"
#include "sim/simulator/world_accounts.h"

namespace lambent::simulator {

// Keeps accounts of its own, only from events and actions, so that an error in dispatch's or the
// fleet's accounting shows. Costs a few look-ups per event, and the scans.
class Invariants {
 public:
  // `dispatcher` outlives it and has had no event yet.
  Invariants(const dispatch::Dispatcher& dispatcher, InvariantOptions options);
  Invariants(const Invariants&) = delete;
  Invariants& operator=(const Invariants&) = delete;

  // After every event, with exactly the actions that it led to.
  void check(const dispatch::Event& event, Instant now,
             const std::vector<dispatch::Action>& actions);
  // When nothing is left to happen: every sandbox that was stopped is gone, every timer has fired.
  void check_at_rest();

  // For a driver of the dispatcher that finds something that is not seen from here.
  void violate(Invariant invariant, std::string what);

  // The first that was found; nothing is checked from there on.
  const std::optional<Violation>& violation() const { return violation_; }
  uint64_t events() const { return events_; }

 private:
  using State = WorldAccounts::State;
  using Process = WorldAccounts::Process;
  using Live = WorldAccounts::Live;
  using Function = WorldAccounts::Function;
  using Device = WorldAccounts::Device;

  // What the world told (invariants.cc).
  void see(const dispatch::FunctionRegistered& event);
  void see(const dispatch::FunctionRemoved& event);
  void see(const dispatch::InvocationSubmitted& event);
  template <typename Quiet>
  requires std::is_same_v<Quiet, dispatch::InvocationCancelled> ||
      std::is_same_v<Quiet, dispatch::SandboxCrowdedOut> ||
      std::is_same_v<Quiet, dispatch::GpuTimeUsed>
  void see(const Quiet&) {}
  void see(const dispatch::SandboxReady& event);
  void see(const dispatch::SandboxExited& event);
  void see(const dispatch::InvocationFinished& event);
  void see(const dispatch::InvocationUndelivered& event);
  void see(const dispatch::CallForeseen&) {}
  void see(const dispatch::DeviceReading& event);
  void see(const dispatch::DeviceTaken& event);
  void see(const dispatch::TimerFired&);
  void see(const dispatch::DrainStarted&) { moment_.draining = true; }
  void see(const dispatch::MemoryMoved& event);
  void see(const dispatch::MemoryWanted& event);
  void see(const dispatch::TenantChanged&) {}
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
  void rest_ahead(SandboxId id, Process& process);
  void check_kept(const Process& process);
  void wait_again(Live& live);
  void leave(Process& process, InvocationId id);
  bool must_complete(InvocationId id) const {
    return std::find(must_complete_.begin(), must_complete_.end(), id) != must_complete_.end();
  }
  void settle();
  void check_limits();
  void check_queues(const dispatch::Event& event);

  const dispatch::Dispatcher& dispatcher_;
  const InvariantOptions options_;
  std::optional<Violation> violation_;
  uint64_t events_ = 0;
  InvariantMoment moment_;
  WorldAccounts accounts_;
  InvariantScans scans_;
  std::vector<bool> used_;  // by SandboxId
  // Of the event that is checked: what must get its outcome, how, and sandboxes whose invocation is
  // over.
  std::vector<InvocationId> must_complete_;
  std::optional<SandboxId> ready_ahead_;  // in this event
  std::optional<bool> handler_succeeded_;
  std::vector<SandboxId> answered_;
};

}  // namespace lambent::simulator
