// A world in which everything goes wrong that can: functions, devices, limits, a policy and a load
// made from a seed, around a real Dispatcher whose every event is held against the Invariants. Used
// by tests and by the soak program; one thread for each world, deterministic for its options.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "decide/scheduling/policy.h"
#include "sim/simulator/fault.h"
#include "sim/simulator/invariants.h"

namespace lambent::simulator {

struct FaultyWorldOptions {
  uint64_t seed = 1;
  // To find what a failure needs: kinds that do not happen, and how many arrivals there are.
  std::array<bool, kFaults> without{};
  uint64_t most_arrivals = ~uint64_t{0};
  // A second dispatcher, restored from a snapshot of its own every so many events, must decide as
  // the first does; 0: there is none. Dear, for a snapshot is the whole state.
  unsigned twin_period = 0;
  // How many of the last events to keep in words.
  size_t trace_length = 0;

  // For tests of the invariants, which must be able to fail. What the checker is shown of the
  // actions, the limits that it is told, and the policy, may be distorted.
  std::function<void(const dispatch::Event&, std::vector<dispatch::Action>&)> distort;
  std::function<void(InvariantOptions&)> tell;
  std::function<std::unique_ptr<scheduling::Policy>()> policy;
};

struct FaultyWorldResult {
  std::optional<Violation> violation;
  Instant at{};  // of the violation or the end
  std::string policy;
  uint64_t events = 0;
  uint64_t arrivals = 0;
  FaultCounts faults{};
  dispatch::Counters counters;
  uint64_t log_hash = 0;
  std::deque<std::string> trace;
};

// Runs until nothing is left to happen or an invariant is violated.
FaultyWorldResult run_faulty_world(const FaultyWorldOptions& options);

}  // namespace lambent::simulator
