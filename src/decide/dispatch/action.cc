#include "decide/dispatch/action.h"

namespace lambent::dispatch {

std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::kEvicted:
      return "evicted";
    case StopReason::kIdle:
      return "idle";
    case StopReason::kRetired:
      return "retired";
    case StopReason::kUsedOnce:
      return "used_once";
    case StopReason::kTimedOut:
      return "timed_out";
    case StopReason::kInitTimedOut:
      return "init_timed_out";
    case StopReason::kDrained:
      return "drained";
    case StopReason::kDeviceLost:
      return "device_lost";
    case StopReason::kMoveFailed:
      return "move_failed";
  }
  return "evicted";
}

std::string_view name_of(MoveDepth depth) {
  return depth == MoveDepth::kContext ? "context" : "memory";
}

}  // namespace lambent::dispatch
