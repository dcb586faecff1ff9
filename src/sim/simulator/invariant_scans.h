// InvariantScans: the invariants that take a look at everything: virtual times, idle devices,
// deadlines, accounting. Compares the dispatcher with WorldAccounts after an event; of Invariants,
// on its thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "decide/dispatch/dispatcher.h"
#include "sim/simulator/invariant.h"
#include "sim/simulator/world_accounts.h"

namespace lambent::simulator {

// When an event was, and what was known then beside the accounts.
struct InvariantMoment {
  Instant now{};
  Instant before{};        // when the event before was
  Instant armed = kNever;  // what the dispatcher's timer is set to
  bool timer_fired = false;
  bool draining = false;
};

class InvariantScans {
 public:
  using Violate = std::function<void(Invariant, std::string)>;
  // All outlive the scans. `violate` is called with what does not hold.
  InvariantScans(const dispatch::Dispatcher& dispatcher, const InvariantOptions& options,
                 const WorldAccounts& accounts, Violate violate);

  // After every event: who is ready runs where it can.
  void check_ready(const InvariantMoment& moment);
  // After every event: what may run does, in fair order, and without waiting too long.
  void check_progress(const InvariantMoment& moment);
  // After a timer: what should have ended by now has. At any other time: a timer is set for what is
  // to end first.
  void check_deadlines(const InvariantMoment& moment, bool after_timer);
  // The fleet's accounting agrees with ours.
  void check_accounts();
  // A stopped sandbox is gone: what waited for its place has not waited in vain.
  void forget_waits() { lost_grace_periods_.clear(); }

 private:
  void check_virtual_times(const InvariantMoment& moment);
  void check_conservation(const InvariantMoment& moment);
  void check_grace_period(const InvariantMoment& moment);
  unsigned planned_on(uint32_t device) const;
  Duration rest_limit(const WorldAccounts::Process& process) const;
  void check_slots(const scheduling::Fleet& fleet, const scheduling::Device& device);
  void check_places(const std::vector<unsigned>& planned);

  const dispatch::Dispatcher& dispatcher_;
  const InvariantOptions& options_;
  const WorldAccounts& accounts_;
  const Violate violate_;
  Duration global_{};
  uint64_t conserving_ = 0;
  std::vector<Duration> virtual_times_;
  std::vector<Duration> lost_grace_periods_;  // by FunctionId; see check_grace_period
};

}  // namespace lambent::simulator
