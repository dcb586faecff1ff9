#include "sim/simulator/gpu_counts.h"

#include <algorithm>

namespace lambent::simulator {

Result<void> check_gpu_counts(const std::vector<FunctionModel>& functions,
                              const std::function<std::string(FunctionId)>& name_of,
                              const scheduling::FleetOptions& fleet,
                              const scheduling::Policy& policy) {
  for (const FunctionModel& function : functions) {
    const dispatch::FunctionProfile& profile = function.profile;
    if (profile.gpu_count <= 1 || profile.device_memory == Bytes(0)) continue;
    const std::string takes = "function " + name_of(profile.id) + " takes " +
                              std::to_string(profile.gpu_count) + " GPUs together, ";
    if (!policy.places_gangs()) {
      return Error{ErrorCode::kFailedPrecondition,
                   takes + "and the policy " + std::string(policy.name()) +
                       " gives GPUs one by one; simulate density, mqfq-sticky or fcfs"};
    }
    const auto large = std::ranges::count_if(
        fleet.devices, [&](const auto& device) { return profile.device_memory <= device.memory; });
    if (large >= static_cast<int64_t>(profile.gpu_count)) continue;
    return Error{ErrorCode::kFailedPrecondition, takes + "and there are " + std::to_string(large) +
                                                     " with " + to_string(profile.device_memory) +
                                                     " for it; simulate more GPUs (gpus), or " +
                                                     "larger ones (memory)"};
  }
  return {};
}

}  // namespace lambent::simulator
