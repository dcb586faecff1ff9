// flow_of: what dispatch knows of a function's queue. Pure; used by the parts of Worker on the loop
// thread.
#pragma once

#include "decide/dispatch/dispatcher.h"

namespace lambent::worker {

// Null: no such function is registered.
inline const scheduling::Flow* flow_of(const dispatch::Dispatcher& dispatcher,
                                       FunctionId function) {
  const auto& flows = dispatcher.flows();
  const bool is_known = function.value < flows.size() && flows[function.value].registered;
  return is_known ? &flows[function.value] : nullptr;
}

}  // namespace lambent::worker
