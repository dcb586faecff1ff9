// Placer: how a policy finds slices for a function, and what it says when there are none. Used by
// policies on the thread that handles events.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>

#include "base/result.h"
#include "pipeline/planner.h"
#include "slice_scheduling/world.h"

namespace lambent::slice_scheduling {

// The best placement of a function on some of these slices, or none.
using Placer = std::function<std::optional<pipeline::Placement>(const pipeline::PipelineFunction&,
                                                                std::span<const Slice>)>;

// The first of the function's ranked partitions that fits: pipeline::first_that_fits.
Placer planner_placer(const pipeline::TransferCosts& costs);

// Asks a Placer about the slices that are free, once for each change of them or of the function.
class FreePlacer {
 public:
  explicit FreePlacer(Placer placer) : placer_(std::move(placer)) {}

  // On free slices. None: it does not fit now.
  std::optional<pipeline::Placement> place(const SliceWorld& world, const FunctionState& function);
  // Whether it would fit if nobody had any slice.
  bool fits_empty(const SliceWorld& world, const FunctionState& function);

 private:
  struct Answer {
    uint64_t slices_version = 0;
    uint64_t function_version = 0;
    bool is_for(const SliceWorld& world, const FunctionState& function) const {
      return slices_version == world.slices_version && function_version == function.version;
    }
  };
  struct Known {
    Answer does_not_fit;
    Answer asked_empty;
    bool fits_empty = false;
  };

  Placer placer_;
  std::map<FunctionId, Known> known_;
};

// RESOURCE_EXHAUSTED for a request of a function that no slices here can hold: what it needs at
// least, and what there is.
Error fits_nowhere(const SliceWorld& world, const pipeline::PipelineFunction& function);

}  // namespace lambent::slice_scheduling
