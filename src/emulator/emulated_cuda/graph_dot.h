// A graph as text in the DOT language, for people who debug one.
#pragma once

#include <string>

#include "emulator/emulated_cuda/graph.h"

namespace lambent::emulated_cuda {

// Nodes with their types, parameters and handles as `flags` (CUgraphDebugDot_flags) ask, children
// and bodies as clusters.
std::string dot_text(const Graph& graph, unsigned flags);

}  // namespace lambent::emulated_cuda
