// choose_isolation: whether requests of a pipeline function go to slices of its own or, whole, to a
// device that functions share. Pure; used by PipelineHost.
#pragma once

#include "decide/slice_scheduling/slice_dispatcher.h"
#include "node/worker/pipeline_functions.h"

namespace lambent::worker {

IsolationStatus choose_isolation(const PipelineFunctions::Function& function,
                                 const slice_scheduling::SliceWorld& world,
                                 const PipelineSetting& setting, Instant now);

}  // namespace lambent::worker
