// Where the file of a constant lies: in the package, or in what the function mounts. Pure; any
// thread.
#pragma once

#include <string_view>

#include "decide/kernel_graph/graph.h"

namespace lambent::kernel_graph {

// Whether a path is of what a function mounts: "/weights/layer1.bin", absolute and otherwise by the
// rules of paths in the package.
inline bool is_mounted(std::string_view path) {
  return path.starts_with('/') && stays_in_package(path.substr(1));
}

inline bool names_constant(std::string_view path) {
  return stays_in_package(path) || is_mounted(path);
}

}  // namespace lambent::kernel_graph
