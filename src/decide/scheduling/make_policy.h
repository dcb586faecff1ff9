// The policies by the names that users write. Called by main, the simulator and tests.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "core/base/result.h"
#include "decide/scheduling/cfs_affinity.h"
#include "decide/scheduling/density.h"
#include "decide/scheduling/fcfs.h"
#include "decide/scheduling/mqfq_sticky.h"
#include "decide/scheduling/policy.h"

namespace lambent::scheduling {

struct PolicyOptions {
  MqfqOptions mqfq;
  // FCFS: whether a function's memory is moved off the device after each invocation.
  bool fcfs_moves_off_after_run = true;
  CfsOptions cfs;
  // Its fair queuing has the options of `mqfq`.
  DensityOptions density;
};

// So that a journal can say under which options it was recorded.
void archive(StateArchive& archive, PolicyOptions& options);

// What runs by default (decision 0018).
constexpr std::string_view kDefaultPolicy = "density";

// What mqfq-uniform charges each invocation unless the options say otherwise.
constexpr Duration kUniformCost = seconds(1);

// "density", "mqfq-sticky", "mqfq-uniform" (each invocation is charged kUniformCost), "fcfs",
// "fcfs-naive", "batch", "cfs-affinity", "exclusive".
std::span<const std::string_view> policy_names();

// INVALID_ARGUMENT, listing the names, for any other.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name,
                                            const PolicyOptions& options = {});

}  // namespace lambent::scheduling
