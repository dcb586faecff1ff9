#include "sim/simulator/invariant.h"

#include <iterator>

namespace lambent::simulator {

std::string_view name_of(Invariant invariant) {
  static constexpr std::string_view kNames[] = {
      "memory",        "host_memory",       "tokens",       "pool",
      "start_sandbox", "start_invocation",  "moves",        "stop_sandbox",
      "one_outcome",   "true_outcome",      "queues",       "virtual_time",
      "over_run",      "work_conservation", "endless_wait", "timers",
      "accounts",      "nothing_left",      "snapshot"};
  static_assert(std::size(kNames) == kInvariants);
  return kNames[static_cast<size_t>(invariant)];
}

}  // namespace lambent::simulator
