// What `lambent sweep` was told: which parameters to vary and the flags that stay, and from both
// the options of every cell. Uses the flags of `lambent simulate`, so that both know the same.
#pragma once

#include <string>
#include <vector>

#include "bin/simulate_options.h"
#include "core/base/result.h"
#include "sim/sweep/grid.h"

namespace lambent::bin {

struct SweepPlan {
  std::vector<std::string> arguments;  // of `lambent simulate`, for every cell
  sweep::Grid grid;
};

// `arguments` are flags of `lambent simulate` without --policy and --seed; `vary` is as on the
// command line; policies are an axis as well, if there are any. Tries the options of every value,
// so that a bad one is refused before anything runs: INVALID_ARGUMENT.
Result<SweepPlan> make_sweep_plan(std::vector<std::string> arguments,
                                  const std::vector<std::string>& vary,
                                  const std::vector<std::string>& policies, uint64_t first_seed,
                                  uint64_t seeds);

// The command line of one cell, after "lambent simulate".
std::vector<std::string> arguments_of(const SweepPlan& plan, const sweep::Cell& cell);
Result<SimulateOptions> options_of(const std::vector<std::string>& arguments);

}  // namespace lambent::bin
