// The planner: all partitions of a DAG into stages, in the order in which they are to be tried, and
// the first of them that fits slices which are free. Pure functions, any thread.
//
// Hui et al., "FluidFaaS" (HPDC 2025), section 5.2.2, for the rule kBalance.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/domain/slice.h"
#include "decide/pipeline/definition.h"
#include "decide/pipeline/function.h"
#include "decide/pipeline/profile_json.h"
#include "decide/pipeline/rank_rule.h"
#include "decide/pipeline/stage_process_cost.h"

namespace lambent::pipeline {

struct PlannerOptions {
  RankRule rule = RankRule::kBalance;
  TransferCosts costs;
  // That the node has; none: those that the profile speaks of.
  std::vector<SliceShape> shapes;
  size_t most_stages = 8;
  size_t most_partitions = 4'096;  // more are not looked at; enumeration.h says which these are

  bool operator==(const PlannerOptions&) const = default;
};

// A partition as it is judged before it is known which slices will be free: each stage process on
// the smallest shape that it fits.
struct RankedPartition {
  Partition partition;
  std::vector<SliceShape> shapes;     // by stage process; empty if no shape is known at all
  std::vector<Duration> stage_times;  // of the longest stage process of each
  double variation = 0;               // their standard deviation by their mean; of one stage 0
  Timing timing;                      // with hand-overs
  // The batch size with the most results a second that keeps the SLO, and what it gives.
  size_t requests = 1;
  double results_per_s = 0;
  double results_per_s_per_multiprocessor = 0;
};

// Best first. kBalance: least variation; the function in one piece has none and comes first. Then
// fewer stages, fewer stage processes, shorter bottleneck. kThroughput: those that keep
// function.slo without other load come first, then most results a second per multiprocessor, with
// the batch size that is best for that (keeps_slo(), stage_process_cost.h). Those
// that no shape has the memory for are left out; RESOURCE_EXHAUSTED, saying what would be needed,
// if none is left. INVALID_ARGUMENT for a DAG beyond limits.h.
Result<std::vector<RankedPartition>> judge_partitions(const PipelineFunction& function,
                                                      const PlannerOptions& options);
// The same without the judgement, as PipelineFunction::ranked has it.
Result<std::vector<Partition>> rank_partitions(const PipelineFunction& function,
                                               const PlannerOptions& options);

// The smallest of the shapes that has so much memory: by multiprocessors, memory, name.
const SliceShape* smallest_holding(std::span<const SliceShape> shapes, Bytes memory);

// How long the whole function takes for a single request on the smallest of its shapes that holds
// it; of one that none holds, in its quickest placement on any number of slices. What an SLO's
// scale is of. None if nothing was measured.
std::optional<Duration> time_alone(const PipelineFunction& function, const TransferCosts& costs);

// All of it for schedulers: shapes of the profile and of options.shapes, the SLO in time, ranked
// by definition.rank or else by options.rule. An SLO's scale without measurements gives no SLO.
Result<PipelineFunction> plan_function(FunctionId id, const PipelineDefinition& definition,
                                       const MeasuredProfile& measured, Bytes declared_memory,
                                       PlannerOptions options);

}  // namespace lambent::pipeline
