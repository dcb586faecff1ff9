#include "sim/simulator/fault.h"

namespace lambent::simulator {
namespace {

constexpr std::string_view kNames[] = {
    "failed_start",   "init_crash",   "hanging_start", "slow_start",          "idle_death",
    "undelivered",    "crash",        "hang",          "handler_error",       "slow_load",
    "failed_load",    "hanging_stop", "slow_move",     "failed_move",         "hanging_move",
    "move_death",     "late_message", "lost_message",  "duplicate_message",   "stray_message",
    "late_timer",     "early_timer",  "lost_device",   "silent_device",       "taken_device",
    "executor_death", "clock_step",   "cancellation",  "repeated_submission", "redeploy",
    "stale_deploy",   "removal",      "drain"};
static_assert(std::size(kNames) == kFaults);

}  // namespace

std::string_view name_of(Fault fault) { return kNames[static_cast<size_t>(fault)]; }

std::optional<Fault> fault_from_name(std::string_view name) {
  for (size_t i = 0; i < kFaults; ++i) {
    if (kNames[i] == name) return static_cast<Fault>(i);
  }
  return std::nullopt;
}

}  // namespace lambent::simulator
