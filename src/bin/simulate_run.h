// One workload under one policy on modelled devices: what `lambent simulate` does for each of its
// policies and `lambent sweep` for each of its cells.
#pragma once

#include <string>

#include "base/result.h"
#include "bin/simulate_options.h"
#include "cli/run_summary.h"

namespace lambent::bin {

// Runs options' workload under this policy. Writes the result file and progress that the options
// ask for. INVALID_ARGUMENT or NOT_FOUND for a bad setting, policy, trace or catalogue.
Result<cli::RunFigures> simulate(const SimulateOptions& options, const std::string& policy_name);

}  // namespace lambent::bin
