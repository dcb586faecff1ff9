// Traces with a row per interval of time and a column per function, which tell how often each was
// invoked in it: Huawei's requests per minute and per second. Pure; read row by row, so that memory
// holds the functions and one interval, however long the trace is.
#pragma once

#include "sim/workload/csv.h"
#include "sim/workload/trace_reader.h"

namespace lambent::workload {

// Whether a header is of this kind: day, time, and a column for each function.
bool is_interval_header(const RowReader& rows);
// `rows` are past the header of `lines`, which the trace keeps and reads again. Where they cannot
// be rewound, what is not zero is held, at most limits::kTraceArrivals counts.
Result<Trace> read_interval_trace(std::unique_ptr<LineReader> lines, RowReader rows,
                                  const std::string& file, const TraceOptions& options);

}  // namespace lambent::workload
