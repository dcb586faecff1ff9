// lambent slices advise: reads pipelines, profiles and a trace, asks the simulator which layout
// serves them best, and shows it. Used by lambent-slices.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "edge/cli/console.h"
#include "sim/workload/trace_reader.h"

namespace lambent {

struct SlicesAdviseOptions {
  // "NAME=FILE" or "FILE", and the profile of each; a folder stands for its pipeline.json.
  std::vector<std::string> pipelines;
  std::vector<std::string> profiles;
  std::string trace;
  workload::TraceOptions read;
  // Without a trace: so many requests a second of each function for a minute.
  std::vector<double> rates;
  std::string family = "a100-80gb";
  unsigned gpus = 1;
  unsigned shown = 8;
  double change_minutes = 5;
  std::string policy = "slo";
};

Result<void> advise_slices(const SlicesAdviseOptions& options, cli::Console& console);

}  // namespace lambent
