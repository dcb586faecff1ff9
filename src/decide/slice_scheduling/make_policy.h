// The slice policies by the names that users write. Called by main, the simulator and tests.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "core/base/result.h"
#include "decide/pipeline/planner.h"
#include "decide/slice_scheduling/esg.h"
#include "decide/slice_scheduling/fcfs_slices.h"
#include "decide/slice_scheduling/fluid_faas.h"
#include "decide/slice_scheduling/infless.h"
#include "decide/slice_scheduling/policy.h"
#include "decide/slice_scheduling/slo_policy.h"

namespace lambent::slice_scheduling {

struct SlicePolicyOptions {
  pipeline::TransferCosts costs;
  FcfsSlicesOptions fcfs;
  EsgOptions esg;
  InflessOptions infless;
  FluidFaasOptions fluid_faas;
  SloPolicyOptions slo;
};

// "esg", "fcfs", "fluidfaas", "infless", "slo".
std::span<const std::string_view> slice_policy_names();

// INVALID_ARGUMENT, listing the names, for any other.
Result<std::unique_ptr<SlicePolicy>> make_slice_policy(std::string_view name,
                                                       const SlicePolicyOptions& options = {});

}  // namespace lambent::slice_scheduling
