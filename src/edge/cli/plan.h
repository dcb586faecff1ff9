// lambent plan: how a pipeline function would be cut and placed on slices that are free, and why
// so. Of a worker's function, or from files.
#pragma once

#include "edge/cli/console.h"
#include "edge/cli/plan_inputs.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

int run_plan(Transport& transport, Console& console, const PlanOptions& options);

}  // namespace lambent::cli
