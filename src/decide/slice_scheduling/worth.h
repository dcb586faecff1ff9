// Worth: what a placement gives for what its slices are worth to all functions. Used by SloPolicy
// on the thread that handles events.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "decide/slice_scheduling/placer.h"
#include "decide/slice_scheduling/world.h"

namespace lambent::slice_scheduling {

// One partition on some of these slices, those with the fewest multiprocessors: pipeline::place.
using PartitionPlacer = std::function<std::optional<pipeline::Placement>(
    const pipeline::PipelineFunction&, const pipeline::Partition&, std::span<const Slice>)>;
PartitionPlacer planner_partition_placer(const pipeline::TransferCosts& costs);

// The first of a function's ranked partitions that such a placer has a place for.
Placer first_fit(PartitionPlacer placer);

// A slice is worth its multiprocessors if some function can use only slices of its shape, and that
// share of them that it can use; hardly anything if they are of use only beside larger ones. A
// function that fits a large slice leaves it nevertheless a pipeline over it and a small one that
// no other could use, if that gives more.
class Worth {
 public:
  // Instances on up to `most_slices` slices have replicas where that is of use; 0: none have.
  Worth(PartitionPlacer placer, const pipeline::TransferCosts& costs, size_t most_slices)
      : placer_(std::move(placer)), costs_(costs), most_slices_(most_slices) {}

  // Of all placements on these slices: one that keeps the SLO by itself before one that does not,
  // then most results a second for what its slices are worth, then the quickest; slices on which a
  // start failed lately only if it does not fit without them. Replicas only for results that are
  // wanted. None: it does not fit.
  std::optional<pipeline::Placement> choose(const SliceWorld& world, const FunctionState& function,
                                            std::span<const Slice> slices, double wanted_per_s);

 private:
  struct Found {
    pipeline::Placement placement;
    bool late = false;
    double cost = 0;
  };
  std::optional<Found> best_of(const SliceWorld& world, const FunctionState& function,
                               std::span<const Slice> slices);
  // Cheaper than that by more than a little, or none.
  std::optional<pipeline::Placement> replicated(const FunctionState& function,
                                                std::span<const Slice> slices, double wanted_per_s,
                                                const Found& alone) const;
  // What slices are worth to the functions there are; these among them.
  void learn(const SliceWorld& world, std::span<const Slice> slices);

  PartitionPlacer placer_;
  const pipeline::TransferCosts costs_;
  const size_t most_slices_;
  std::map<std::string, double> by_shape_;
  uint64_t functions_seen_ = 0;
};

}  // namespace lambent::slice_scheduling
