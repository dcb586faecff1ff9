// lambent plan: how a pipeline function would be cut and placed on slices that are free, and why
// so. From files; asks no worker.
#pragma once

#include <optional>
#include <string>

#include "cli/console.h"
#include "pipeline/planner.h"

namespace lambent::cli {

struct PlanOptions {
  std::string pipeline;              // the file pipeline.json, or a folder with it
  std::string profile;               // the file profile.json; empty: nothing was measured
  std::string slices;                // that are free on each GPU: "4g.40gb,2*1g.10gb"
  std::string family = "a100-80gb";  // of the devices that these are slices of
  unsigned gpus = 1;
  std::string memory;  // what the manifest declares: "8G"; for what was not measured
  std::string rank;    // instead of the function's
  pipeline::TransferCosts costs;
  size_t most_shown = 20;
};

int run_plan(Console& console, const PlanOptions& options);

}  // namespace lambent::cli
