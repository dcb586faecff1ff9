// What `--what-if` tells: the runs that are compared, in all and by function, and which functions
// the model gets wrong and in which part of their time. Pure; used by journal_what_if.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bin/measured_workload.h"
#include "edge/cli/console.h"

namespace lambent::bin {

// One run: what was recorded, or a simulation.
struct WhatIfRun {
  std::string label;
  RunOutcomes all;
  std::map<FunctionId, RunOutcomes> by_function;

  void add(FunctionId function, const dispatch::CompleteInvocation& outcome) {
    all.add(outcome);
    by_function[function].add(outcome);
  }
};

struct WhatIfReport {
  std::vector<WhatIfRun> runs;  // recorded, simulated as recorded, simulated with the changes
  std::map<FunctionId, std::string> names;
  uint64_t unmeasured = 0;
};

// A function's part of the difference between what was recorded and the same simulated.
struct ModelError {
  FunctionId function;
  double seconds = 0;  // simulated less recorded, of all its calls together
  double share = 0;    // of the sum of all functions' differences, each without its sign
  struct Part {
    std::string name;                        // "queue", "cold start", "memory", "run"
    double recorded_s = 0, simulated_s = 0;  // means
  };
  std::vector<Part> parts;  // what differs, the most first
};
// The largest first.
std::vector<ModelError> model_errors(const WhatIfReport& report);

void print(const WhatIfReport& report, cli::Console& console);
nlohmann::json json_of(const WhatIfReport& report);
// A row for each run and function.
std::string csv_of(const WhatIfReport& report);

}  // namespace lambent::bin
