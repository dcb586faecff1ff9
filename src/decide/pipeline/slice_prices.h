// What slices of each shape are worth to a mix of functions, found by dividing all slices among
// instances as well as can be. Pure functions, any thread; used by policies, so that a function
// leaves to others the slices that they can do more with.
#pragma once

#include <map>
#include <span>
#include <string>

#include "core/base/result.h"
#include "core/domain/slice.h"
#include "decide/pipeline/stage_process_cost.h"
#include "decide/pipeline/throughput_bound.h"

namespace lambent::pipeline {

struct SlicePrices {
  // Requests of the mix a second that one slice more of a shape would give, by its name.
  std::map<std::string, double> by_shape;
  // Requests of the mix a second that instances on all slices give, if parts of instances could be
  // had: more is not to be reached with instances that keep their slices to themselves.
  double requests_per_s = 0;

  bool operator==(const SlicePrices&) const = default;
};

// A linear program: how many instances there are of each function on each set of shapes, no more of
// a shape than there are slices, every function as much as its share. Of each function the first
// kPriced partitions count, and of these the placements that keep its SLO, if there are any.
// FAILED_PRECONDITION if a function of the mix fits no slices, or none has a share.
constexpr size_t kPriced = 64;
Result<SlicePrices> price_slices(std::span<const MixedFunction> mix, std::span<const Slice> slices,
                                 const TransferCosts& costs);

}  // namespace lambent::pipeline
