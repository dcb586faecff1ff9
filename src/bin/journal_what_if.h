// `lambent simulate --replay DIR --what-if KEY=VALUE`: the arrivals and the measured times of a
// journal under other settings, on modelled devices. Used by the simulator's main.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "edge/cli/console.h"
#include "sim/simulator/model.h"

namespace lambent::bin {

struct WhatIfOptions {
  std::string journal;
  std::vector<std::string> changes;  // KEY=VALUE: D, T, policy, pool, gpus, memory, or of --set
  simulator::DeviceModel device;
  // Only what arrived in this time before the journal's end, or between these times after its last
  // start.
  std::optional<Duration> last, from, to;
  std::vector<std::string> only;  // the functions that are counted; empty: all
  std::string csv;                // a file to write; empty: none
};

// Prints what was recorded, the same simulated (so that the model's error shows), and the changed
// settings simulated. The exit code.
int what_if(const WhatIfOptions& options, cli::Console& console);

}  // namespace lambent::bin
