// check_gpu_counts: whether modelled devices are enough for functions that take several together.
// Pure; used before a simulation.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "decide/scheduling/policy.h"
#include "sim/simulator/model.h"

namespace lambent::simulator {

// FAILED_PRECONDITION, naming the function and what to change: there are fewer devices with its
// memory than it takes, or the policy gives devices one by one. `name_of` gives its name as the
// message shows it.
Result<void> check_gpu_counts(const std::vector<FunctionModel>& functions,
                              const std::function<std::string(FunctionId)>& name_of,
                              const scheduling::FleetOptions& fleet,
                              const scheduling::Policy& policy);

}  // namespace lambent::simulator
