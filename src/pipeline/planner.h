// The planner: all partitions of a DAG into stages, in the order in which they are to be tried, and
// the first of them that fits slices which are free. Pure functions, any thread.
//
// Hui et al., "FluidFaaS" (HPDC 2025), section 5.2.2, for the rule kBalance.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "domain/slice.h"
#include "pipeline/function.h"
#include "pipeline/rank_rule.h"

namespace lambent::pipeline {

// What moving data costs between stages, and weights onto slices.
struct TransferCosts {
  double copies_gb_per_s = 12;  // of one copy, device to host or host to device
  Duration handover{};          // beside the copies
  double load_gb_per_s = 12;    // weights from host memory

  bool operator==(const TransferCosts&) const = default;
};

struct PlannerOptions {
  RankRule rule = RankRule::kBalance;
  TransferCosts costs;
  size_t most_stages = 8;
  size_t most_partitions = 4'096;  // more are not looked at; README.md says which these are

  bool operator==(const PlannerOptions&) const = default;
};

// The function's partitions, best first. Those that no shape of the node has the memory for are
// left out; RESOURCE_EXHAUSTED, saying what would be needed, if none is left.
Result<std::vector<Partition>> rank_partitions(const PipelineFunction& function,
                                               const PlannerOptions& options);

// This partition on the slices that are free: each lane gets the smallest that it fits and that
// makes no stage slower than need be. None: it does not fit. One node's slices alone.
std::optional<Placement> place(const PipelineFunction& function, const Partition& partition,
                               std::span<const Slice> free, const TransferCosts& costs);

// The first of function.ranked that fits.
std::optional<Placement> first_that_fits(const PipelineFunction& function,
                                         std::span<const Slice> free, const TransferCosts& costs);

// What a lane needs on its slice's device, the process's context included.
Bytes memory_of(const PipelineFunction& function, const Lane& lane);
// How long a lane works on one request on a slice of this shape; optional components by their
// probability. None if nothing was measured.
std::optional<Duration> time_of(const PipelineFunction& function, const Lane& lane,
                                const SliceShape& shape);

}  // namespace lambent::pipeline
