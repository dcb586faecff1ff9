// An upper bound on how many requests a second a mix of functions can get out of slices, however
// scheduled. Pure functions; for benchmarks (share_of_bound) and the layout advisor.
#pragma once

#include <span>

#include "core/base/result.h"
#include "core/domain/slice.h"
#include "decide/pipeline/function.h"

namespace lambent::pipeline {

struct MixedFunction {
  const PipelineFunction* function = nullptr;
  double share = 1;  // of all requests; need not add up to 1
};

enum class BoundKind {
  kCut,    // each component on any slice that has the memory for it by itself
  kWhole,  // functions in one piece on any slice that has the memory for all of it
};

// Requests a second of the whole mix, its shares kept; 0 if one of it fits no slice. A linear
// program: how many requests of which component each shape of slice takes, and no slice works more
// than all the time. What would make it less is left out: hand-overs, loading, that components
// which share a slice share its memory, that a pipeline lies on one node, that requests are whole.
// FAILED_PRECONDITION if a component was not measured; INVALID_ARGUMENT for shares that are
// negative, not finite, or all 0.
Result<double> throughput_bound(std::span<const MixedFunction> mix, std::span<const Slice> slices,
                                BoundKind kind);

}  // namespace lambent::pipeline
