// The arrivals of a trace with exact times, read from its file while they are asked for. Made by
// exact_trace after it has read and checked the same rows; one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/workload/exact_rows.h"
#include "sim/workload/function_table.h"
#include "sim/workload/trace.h"

namespace lambent::workload {

// What the first reading found out for the second.
struct ExactSourcePlan {
  std::string file;                 // for errors
  std::vector<std::string> header;  // of a file without one
  std::vector<std::string> columns;
  TableLayout layout;
  FunctionTable table;              // of all functions
  std::vector<uint32_t> new_index;  // of each function of the table, or kNotChosen
  uint64_t arrivals = 0;            // of the chosen functions in the window
  bool skip_bad_rows = false;
  Duration origin{};  // of the trace's own time, in the file's
  // The window in the trace's own time, and how many times as fast it runs.
  Duration start{};
  Duration end{};
  double rate_scale = 1;
  size_t most_held = 0;  // arrivals of one instant, where each has a run time
};

// Reads from the first line again. In the order of Arrival, though the file has functions in any
// order at one instant; memory is bounded by the number of functions, or by the rows of one instant
// where each has a run time. Fails as rewind() does; the source's failure() is ABORTED if a row is
// not what the first reading saw, RESOURCE_EXHAUSTED if an instant has more than plan.most_held.
Result<std::unique_ptr<ArrivalSource>> source_of(std::unique_ptr<LineReader> lines,
                                                 ExactSourcePlan plan);

}  // namespace lambent::workload
