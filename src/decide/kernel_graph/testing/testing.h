// What tests of kernel graphs share: a graph to begin with, and its kernels. Included by tests
// only.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "decide/kernel_graph/graph_json.h"
#include "decide/kernel_graph/validation.h"

namespace lambent::kernel_graph {

// z = x + w, then up to ten rounds of y = z * 2, until `done` says so.
inline constexpr const char* kSmallGraph = R"({
  "buffers": [
    {"name": "x", "role": "input", "datatype": "FP32", "shape": [2, 2]},
    {"name": "w", "role": "constant", "datatype": "FP32", "shape": [2, 2], "file": "data/w.bin"},
    {"name": "z", "role": "temporary", "datatype": "FP32", "shape": [2, 2]},
    {"name": "y", "role": "output", "datatype": "FP32", "shape": [2, 2]},
    {"name": "done", "role": "temporary", "datatype": "INT32", "shape": [1]}
  ],
  "steps": [
    {"kernel": "add", "bundle": "bundles/math", "grid": [4], "block": [256],
     "arguments": [{"buffer": "x"}, {"buffer": "w"}, {"buffer": "z", "access": "write"},
                   {"literal": 4, "datatype": "UINT32"}]},
    {"repeat": 10, "until": "done", "steps": [
      {"kernel": "scale", "bundle": "lambent:blas", "grid": [1, 2, 3], "block": [8, 8],
       "shared_bytes": 64,
       "arguments": [{"buffer": "z", "access": "read"}, {"buffer": "y"}, {"buffer": "done"},
                     {"literal": [1.5, -2], "datatype": "FP32"}]}
    ]}
  ]
})";

// y = -x for one to four elements, by way of a temporary of each variant's own.
inline constexpr const char* kVariants = R"({
  "buffers": [
    {"name": "x", "role": "input", "datatype": "FP32", "shape": [4, 64]},
    {"name": "y", "role": "output", "datatype": "FP32", "shape": [4, 64]},
    {"name": "one", "role": "temporary", "datatype": "FP32", "shape": [1, 64]},
    {"name": "four", "role": "temporary", "datatype": "FP32", "shape": [4, 64]}
  ],
  "steps": [
    {"batch": 1, "steps": [
      {"kernel": "negate", "bundle": "bundles/math", "grid": [1], "block": [64],
       "arguments": [{"buffer": "x"}, {"buffer": "one", "access": "write"}]},
      {"kernel": "negate", "bundle": "bundles/math", "grid": [1], "block": [64],
       "arguments": [{"buffer": "one", "access": "read"}, {"buffer": "y"}]}]},
    {"batch": 4, "steps": [
      {"kernel": "negate", "bundle": "bundles/math", "grid": [4], "block": [64],
       "arguments": [{"buffer": "x"}, {"buffer": "four", "access": "write"}]},
      {"kernel": "negate", "bundle": "bundles/math", "grid": [4], "block": [64],
       "arguments": [{"buffer": "four", "access": "read"}, {"buffer": "y"}]}]}
  ],
  "batches": {"wait_us": 1500}
})";

inline KernelLookup small_kernels() {
  return {{"bundles/math", {{"add", {{8, 8, 8, 4}, 1024, 512}}, {"negate", {{8, 8}, 0, 1024}}}},
          {"lambent:blas", {{"scale", {{8, 8, 8, 8}, 0, 1024}}}}};
}

// kSmallGraph, or another, with the first `from` replaced by `to`.
inline std::string changed(const std::string& from, const std::string& to,
                           std::string text = kSmallGraph) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

inline KernelGraph graph_of(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : to_string(graph.error()));
  return graph.ok() ? *graph : KernelGraph{};
}

}  // namespace lambent::kernel_graph
