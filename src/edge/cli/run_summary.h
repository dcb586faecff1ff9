// The figures of runs for a terminal and as JSON. Pure; used by replay and report.
#pragma once

#include <string>
#include <vector>

#include "core/base/units.h"
#include "sim/workload/result_file.h"

namespace lambent::cli {

// What moved between devices and host.
struct MemoryMoves {
  uint64_t in = 0, out = 0;  // moves that were done
  Bytes bytes;               // both ways
  uint64_t prefetches = 0;
  uint64_t prefetch_hits = 0;  // invocations that found one done or under way
};

// What a tenant's invocations met.
struct TenantFigures {
  std::string name;
  double weight = 1;
  uint64_t invocations = 0, failed = 0;
  double mean_s = 0;      // latency of those that succeeded
  double gpu_time_s = 0;  // of its runs
};

// Sandboxes that were started ahead of calls.
struct StartsAhead {
  uint64_t started = 0;
  uint64_t used = 0;    // by a call
  uint64_t wasted = 0;  // they ended without any
};

struct RunFigures {
  std::string label;  // the policy, or what the user called the run
  workload::RunHeader header;
  workload::Summary summary;
  std::optional<double> utilisation;    // as the devices said
  std::optional<MemoryMoves> moves;     // nothing moved, or it is not known
  std::optional<StartsAhead> foreseen;  // only where there were any, and they were counted
  std::vector<TenantFigures> tenants;   // only where there were several
  // What the trace leaves open and was taken to be so; not known of result files.
  std::vector<std::string> assumptions = {};
  bool cut_off = false;  // of a result file without an end: figures of a part
};

RunFigures figures_of(const workload::RunFile& run);
// One row per run: mean, p50, p99, variance between functions, cold ratio, utilisation; then a line
// for each run in which memory moved, for each of its tenants, for each whose times cannot be
// trusted, and for each assumption of the first run: the runs are of one trace.
std::string table_of(const std::vector<RunFigures>& runs);
// One run as one JSON object (text).
std::string json_of(const RunFigures& run);
// Why the run's times are not to be trusted; empty if they are.
std::string reason_invalid(const RunFigures& run);

}  // namespace lambent::cli
