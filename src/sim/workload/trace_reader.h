// Reads traces: a row per invocation (t_ms,function with an optional <trace>_functions.csv beside
// it, what known_tables.h knows, or columns that the user names), counts per minute (Azure 2019,
// Huawei) and end times (Azure 2021). Used by replay and the simulator; the parsers are pure and
// fuzzed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "sim/workload/limits.h"
#include "sim/workload/lines.h"
#include "sim/workload/spreading.h"
#include "sim/workload/table_layout.h"
#include "sim/workload/trace.h"

namespace lambent::workload {

struct TraceOptions {
  // The window, in the trace's own time: from `start`, for `length` (zero: to the end).
  Duration start{};
  Duration length{};
  // The trace runs this many times as fast: the gaps shrink, the number of arrivals stays.
  double rate_scale = 1;
  // For counts per minute.
  Spreading spreading = Spreading::kUniform;
  uint64_t seed = 1;
  // Only these functions (empty: all); and of those only the busiest ones in the window (0: all).
  std::vector<std::string> only;
  size_t busiest = 0;
  // Pass over bad rows instead of failing; Trace::skipped_rows tells how many.
  bool skip_bad_rows = false;
  // Of a table with a row per invocation: what its columns say (empty: what its header does), their
  // names if it has no header line, and how fast a call reads and writes tokens.
  std::vector<ColumnChoice> columns;
  std::vector<std::string> header;
  TokenRates token_rates;
  // Of a table with a row per invocation: arrivals in memory at once. Tests choose fewer.
  size_t most_held = limits::kTraceArrivals;
};

// Opens a trace file, plain or gzip; what it is follows from its header and options.columns.
// INVALID_ARGUMENT names the file, the number of bad rows and the first few lines; NOT_FOUND if
// there is no such file.
// A file with a row per invocation, in order of time, is read twice: here, to check every row, and
// again while its arrivals are asked for, so that memory does not grow with its length; their
// failure() tells if it was written to in between. So are counts with a row per interval. In no
// order, or from a pipe, it is held in memory, at most options.most_held rows. So are those of one
// instant where each has a run time.
Result<Trace> open_trace(const std::string& path, const TraceOptions& options);

// The same from lines, which the trace may keep to read them again. `functions` (may be null) is
// the file beside an exact trace.
Result<Trace> read_trace(std::unique_ptr<LineReader> lines, LineReader* functions,
                         const std::string& file, const TraceOptions& options);

// "t7" for "/traces/t7.csv.gz".
std::string trace_name_of(const std::string& path);

}  // namespace lambent::workload
