// ReplayPlan: a trace ready to be sent - its arrivals, and for each function the paper function
// that stands in for it. Made by replay; pure but for the files that it reads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/domain/function.h"
#include "edge/cli/replay.h"
#include "sim/workload/catalogue.h"
#include "sim/workload/trace.h"

namespace lambent::cli {

struct ReplayPlan {
  workload::Trace trace;
  workload::Catalogue catalogue;
  // One per function of the trace.
  std::vector<workload::CatalogueEntry> entries;
  std::vector<std::string> deployed_names;
  // What the trace leaves open and was taken to be so, for the user.
  std::vector<std::string> assumptions;
};

// Where the trace says how long calls run, entries take their function's mean.
Result<ReplayPlan> make_plan(const ReplayOptions& options);

// "replay-6f88de237963ead7": a name that the worker takes, for any name of a trace.
std::string deployed_name(const std::string& prefix, const std::string& function);

// What is deployed for function `index`: the native paper function with this entry's memory and
// times, of the options those that matter.
FunctionSpec paper_function_spec(const ReplayPlan& plan, size_t index,
                                 const ReplayOptions& options);

}  // namespace lambent::cli
