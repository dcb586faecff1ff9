// The JSON form of a graph, as graph.json has it in a package: readable, and closed, so that a
// misspelt word is an error and not ignored. Pure functions; any thread.
//
//   {"buffers": [{"name": "x", "role": "input", "datatype": "FP32", "shape": [1024]},
//                {"name": "w", "role": "constant", "datatype": "FP32", "shape": [1024],
//                 "file": "w.bin"},            or "fill": 0.5 instead of a file
//                {"name": "y", "role": "output", "datatype": "FP32", "shape": [1024]},
//                {"name": "done", "role": "temporary", "datatype": "INT32", "shape": [1]}],
//    "steps": [{"kernel": "vector_add", "bundle": "bundles/vector_add",
//               "grid": [4], "block": [256], "shared_bytes": 0,
//               "arguments": [{"buffer": "x", "offset_bytes": 0, "access": "read"},
//                             {"buffer": "w"}, {"buffer": "y"},
//                             {"literal": 1024, "datatype": "UINT32"}]},
//              {"repeat": 3000, "until": "done", "steps": [...]}]}
//
// The steps may all be variants instead, {"batch": 4, "steps": [...]}; then there may be "batches":
// {"wait_us": 5000, "slo_us": 50000} beside them, both 0 unless said.
//
// "grid" and "block" have one to three numbers (x, y, z; the rest is 1). "shared_bytes" and
// "offset_bytes" are 0 unless said, "access" is default_access() of the buffer's role, "until" no
// flag. A literal or a fill is a number, true or false (BOOL), one of "NaN", "Infinity",
// "-Infinity" (FP32, FP64), or {"base64": "..."}: its bytes, which is the only form of FP16, BF16
// and BYTES. A literal may also be a list, for a parameter that holds several numbers, such as
// float2.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "decide/kernel_graph/graph.h"

namespace lambent::kernel_graph {

// INVALID_ARGUMENT, naming the place, such as "steps[2].arguments[0]", for what is no graph:
// unknown words, wrong types, names of no buffer, numbers out of range, limits::kGraph... exceeded.
// Whether the graph makes sense is for validation.h.
Result<KernelGraph> parse_graph(std::string_view json);

// What parse_graph() reads back as the same value.
std::string to_json(const KernelGraph& graph);

}  // namespace lambent::kernel_graph
