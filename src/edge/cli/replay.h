// lambent replay: sends a trace to a running worker at its own times and tells what came of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/domain/function_limits.h"
#include "edge/cli/console.h"
#include "edge/cli/limits.h"
#include "edge/cli/transport.h"
#include "sim/workload/trace_reader.h"

namespace lambent::cli {

struct ReplayOptions {
  std::string trace;      // a file; empty: a workload of our own generator
  double load = 0.5;      // of that workload: device seconds asked for per second
  std::string catalogue;  // share/catalogue/mqfq_table1.csv or another like it
  workload::TraceOptions read;
  bool resamples =
      false;  // the trace's arrivals are drawn again, by read.seed (sim/workload/resampled.h)
  // Real time goes this many times slower than modelled time: 10 replays ten minutes in one. Must
  // be that of the worker's device.
  double time_scale = 1;
  std::optional<std::string> out;  // a result file for `lambent report`
  std::string label;               // names the run; empty: the worker's policy
  bool deploy = false;
  std::string paper_function;  // the folder of the paper function's package, for `deploy`
  bool cpu_variants = false;   // what is deployed also runs without a GPU, for as long as there
  // Functions work on the host, copy and run kernels by turns, as the catalogue has it.
  bool phases = false;
  unsigned max_concurrency = limits::kDefaultConcurrency;  // of each function that is deployed
  std::string prefix = "replay-";
  // After the last arrival the run waits so long (modelled) for the answers that are missing.
  double give_up_s = 600;
  size_t most_outstanding = limits::kReplayOutstanding;
  bool measure_overhead = true;
};

int run_replay(Transport& transport, const Destination& destination, Console& console,
               const ReplayOptions& options);

}  // namespace lambent::cli
