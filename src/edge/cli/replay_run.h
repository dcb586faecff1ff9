// ReplayRun: sends arrivals at their own times, however long the answers take (open loop), and
// writes down what came back. One thread; used by replay.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "edge/cli/credentials.h"
#include "edge/cli/limits.h"
#include "sim/workload/result_file.h"
#include "sim/workload/trace.h"

namespace lambent::cli {

struct ReplayRunOptions {
  Destination destination;
  double time_scale = 1;
  std::vector<std::string> deployed_names;
  double duration_s = 0;  // modelled; only for the progress
  double give_up_s = 600;
  size_t most_outstanding = limits::kReplayOutstanding;
  // How often /metrics is read and progress shown, in real time.
  Duration reading_every = milliseconds(500);
};

struct ReplayProgress {
  double at_s = 0;  // modelled
  double share = 0;
  uint64_t sent = 0;
  uint64_t answered = 0;
  uint64_t errors = 0;
  uint64_t in_flight = 0;
};

struct ReplayRunSinks {
  std::function<void(const workload::RunRecord&)> record;
  std::function<void(const workload::RunReading&)> reading;
  std::function<void(const ReplayProgress&)> progress;
};

struct ReplayRunTotals {
  double elapsed_s = 0;  // modelled, from the first moment to the last answer
  uint64_t sent = 0;
  uint64_t dropped = 0;     // not sent: `most_outstanding` were waiting already
  uint64_t unfinished = 0;  // no answer by the time the run gave up
  // The largest delay between the time an invocation was meant to be sent and the one it was sent
  // at, real seconds: above a few milliseconds this machine could not keep the pace.
  double worst_lateness_s = 0;
};

// Blocks until all is answered or given up.
ReplayRunTotals replay(workload::ArrivalSource& arrivals, const ReplayRunOptions& options,
                       const ReplayRunSinks& sinks);

}  // namespace lambent::cli
