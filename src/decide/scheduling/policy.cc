#include "decide/scheduling/policy.h"

namespace lambent::scheduling {

std::string_view name_of(FlowState state) {
  switch (state) {
    case FlowState::kInactive:
      return "inactive";
    case FlowState::kActive:
      return "active";
    case FlowState::kThrottled:
      return "throttled";
  }
  return "inactive";
}

}  // namespace lambent::scheduling
