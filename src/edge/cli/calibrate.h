// lambent calibrate: measures a running worker's node - starts, overheads, contention, the link -
// with functions of its own, and writes a profile that `lambent simulate --profile` reckons with.
#pragma once

#include <string>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct CalibrateOptions {
  std::string output = "node.toml";
  std::string paper_function;  // the folder of its package
  int repeats = 9;             // of each measurement; its median counts
};

// Deploys functions named calibrate-* and removes them again. They should have the worker to
// themselves: what else runs there is measured with them.
int run_calibrate(Transport& transport, const Destination& destination, Console& console,
                  const CalibrateOptions& options);

}  // namespace lambent::cli
