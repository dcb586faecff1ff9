// The flags that say which part of a trace counts, and what its columns are. Used by
// `lambent simulate`, `sweep`, `replay` and `slices advise`, so that all know the same.
#pragma once

#include <CLI/CLI.hpp>

#include "sim/workload/trace_reader.h"

namespace lambent::bin {

// What TRACE may be, for its line of help.
constexpr const char* kTraceHelp =
    "rows of t_ms,function, a published trace that is known by its header, or a table whose "
    "columns --column names; plain or .gz (docs/reference/traces.md). Without one, a workload is "
    "generated from --seed";

// They write into `read`, which must live until `app` has parsed.
void add_trace_flags(CLI::App& app, workload::TraceOptions& read);

}  // namespace lambent::bin
