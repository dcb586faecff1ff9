// Traces with a row per invocation, of any layout, and Azure 2021's
// app,func,end_timestamp,duration. Pure; used by trace_reader.
#pragma once

#include "sim/workload/csv.h"
#include "sim/workload/table_layout.h"
#include "sim/workload/trace_reader.h"

namespace lambent::workload {

// `rows` are past the header of `lines`. The trace reads them again while its arrivals are asked
// for; where they cannot be rewound, or are in no order, it holds them, and RESOURCE_EXHAUSTED is
// more than limits::kTraceArrivals of them.
Result<Trace> read_exact_trace(std::unique_ptr<LineReader> lines, RowReader rows,
                               TableLayout layout, LineReader* functions, const std::string& file,
                               const TraceOptions& options);
Result<Trace> read_azure2021_trace(RowReader rows, const std::string& file,
                                   const TraceOptions& options);

}  // namespace lambent::workload
