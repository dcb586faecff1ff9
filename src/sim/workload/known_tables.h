// Tables with a row per invocation that are known by their header: our own (t_ms,function), and
// those that clouds published. Pure; used by the reader of traces.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.h"
#include "sim/workload/table_layout.h"

namespace lambent::workload {

// The layout of a table that we know; nothing if this is none. INVALID_ARGUMENT for one that we
// know to hold no invocations, with what would.
Result<std::optional<TableLayout>> known_layout(const RowReader& rows, const std::string& file,
                                                const TokenRates& rates);

// What a header that nothing knows may be read by.
Error unknown_header(const RowReader& rows, const std::string& file);

}  // namespace lambent::workload
