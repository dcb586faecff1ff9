#include "decide/slice_scheduling/make_policy.h"

#include <array>
#include <string>

namespace lambent::slice_scheduling {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"esg", "fcfs", "fluidfaas", "infless", "slo"};

}  // namespace

std::span<const std::string_view> slice_policy_names() { return kNames; }

Result<std::unique_ptr<SlicePolicy>> make_slice_policy(std::string_view name,
                                                       const SlicePolicyOptions& options) {
  const Placer placer = planner_placer(options.costs);
  std::unique_ptr<SlicePolicy> policy;
  if (name == "fcfs") policy = std::make_unique<FcfsSlicesPolicy>(placer, options.fcfs);
  if (name == "esg") policy = std::make_unique<EsgPolicy>(placer, options.esg);
  if (name == "infless") policy = std::make_unique<InflessPolicy>(placer, options.infless);
  if (name == "fluidfaas") policy = std::make_unique<FluidFaasPolicy>(placer, options.fluid_faas);
  if (name == "slo") {
    policy = std::make_unique<SloPolicy>(planner_partition_placer(options.costs), options.slo,
                                         options.costs);
  }
  if (policy != nullptr) return policy;
  std::string known;
  for (const std::string_view each : kNames) {
    known += (known.empty() ? "" : ", ") + std::string(each);
  }
  return Error{ErrorCode::kInvalidArgument,
               "no slice policy '" + std::string(name) + "'; there are: " + known};
}

}  // namespace lambent::slice_scheduling
