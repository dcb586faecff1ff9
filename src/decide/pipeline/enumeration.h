// All partitions of a DAG into stages, or the most balanced of them where there are too many. Pure
// functions; used by the planner.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/base/time.h"
#include "decide/pipeline/dag.h"
#include "decide/pipeline/partition.h"

namespace lambent::pipeline {

struct EnumerationLimits {
  size_t most_stages = 8;
  size_t most_partitions = 4'096;
};

// How long a stage process is taken to work; none: there is no slice that it fits.
using StageProcessTime = std::function<std::optional<Duration>(const StageProcess&)>;

// In no particular order, each once. Of more than `most_partitions` those stay, for each number of
// stages the same number of them, whose stages have the least sum of squared times: for a chain
// whose stage processes all take the same shape these are exactly those with the least coefficient
// of variation.
std::vector<Partition> all_partitions(const Dag& dag, const EnumerationLimits& limits,
                                      const StageProcessTime& time_of);

}  // namespace lambent::pipeline
