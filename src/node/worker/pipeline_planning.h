// Pipeline planning: what becomes of a pipeline when it is deployed: planned for this node, kept
// for other nodes of the cluster that could serve it, or refused. Pure functions that may take
// seconds: used on the file thread.
#pragma once

#include <cstddef>

#include "core/base/result.h"
#include "core/domain/function.h"
#include "node/worker/function_rules.h"
#include "node/worker/pipeline_functions.h"
#include "node/worker/pipeline_package.h"
#include "node/worker/pipeline_setting.h"

namespace lambent::worker {

// The most sets of slices for which a deployment is planned. The planner takes up to some tenths of
// a second for each.
constexpr size_t kMostSetsTried = 32;

// What was found among the other nodes. Nodes with the same slices and GPUs are one set.
struct PipelineElsewhere {
  bool fits = false;
  size_t sets = 0;
  size_t tried = 0;  // at most kMostSetsTried, those with the most memory first
  size_t plans = 0;  // one for all sets of the same shapes
};
PipelineElsewhere look_elsewhere(const OtherNodes& others, const PipelineSetting& here,
                                 const FunctionSpec& spec, const PipelinePackage& package);

// INVALID_ARGUMENT: no node could ever run it. Otherwise as PipelineFunctions::check(), where no
// other node could serve it either.
Result<PipelineFunctions::Planned> plan_deployed(const OtherNodes& others,
                                                 const PipelineSetting& here,
                                                 const FunctionSpec& spec,
                                                 const PipelinePackage& package);

}  // namespace lambent::worker
