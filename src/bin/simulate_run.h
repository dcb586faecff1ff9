// One workload under one policy on modelled devices: what `lambent simulate` does for each of its
// policies and `lambent sweep` for each of its cells.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bin/simulate_options.h"
#include "core/base/result.h"
#include "edge/cli/run_summary.h"
#include "sim/simulator/simulation.h"

namespace lambent::bin {

// Called before the first arrival; what it returns sees every event. `names`: of the functions, in
// the order of their ids from 1.
using BeginHook = std::function<simulator::Observer(const simulator::Simulation&,
                                                    const std::vector<std::string>& names)>;

// Runs options' workload under this policy, or as the clairvoyant would. Writes the result file and
// progress that the options ask for. INVALID_ARGUMENT or NOT_FOUND for a bad setting, policy, trace
// or catalogue.
Result<cli::RunFigures> simulate(const SimulateOptions& options, const std::string& policy_name,
                                 const BeginHook& begins = nullptr);

// "run-fcfs.jsonl" for "run.jsonl" where several policies each write their own.
std::string path_of_policy(const SimulateOptions& options, const std::string& path,
                           const std::string& policy);

}  // namespace lambent::bin
