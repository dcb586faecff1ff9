// Traces that tell how often each function was invoked in each minute (Azure 2019). Pure; the
// arrivals are drawn minute by minute, so that memory holds the counts and one minute's arrivals.
#pragma once

#include "sim/workload/csv.h"
#include "sim/workload/trace_reader.h"

namespace lambent::workload {

// Whether a header is of this kind: a column 'fid' or 'HashFunction', and minutes.
bool is_minute_header(const RowReader& rows);
Result<Trace> read_minute_trace(RowReader rows, const std::string& file,
                                const TraceOptions& options);

}  // namespace lambent::workload
