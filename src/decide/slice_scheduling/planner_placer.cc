// The Placers that stand on the planner.
#include "decide/pipeline/placing.h"
#include "decide/slice_scheduling/placer.h"

namespace lambent::slice_scheduling {

Placer planner_placer(const pipeline::TransferCosts& costs) {
  return [costs](const pipeline::PipelineFunction& function, std::span<const Slice> slices) {
    return pipeline::first_that_fits(function, slices, costs);
  };
}

}  // namespace lambent::slice_scheduling
