#include "kernel_graph/graph.h"

namespace lambent::kernel_graph {

// Not defaulted: clang 14 crashes on it, since Step is not complete where Repeat is.
bool Repeat::operator==(const Repeat& other) const {
  return times == other.times && until == other.until && steps == other.steps;
}

std::string_view name_of(BufferRole role) {
  switch (role) {
    case BufferRole::kInput:
      return "input";
    case BufferRole::kConstant:
      return "constant";
    case BufferRole::kTemporary:
      return "temporary";
    case BufferRole::kOutput:
      return "output";
    case BufferRole::kInOut:
      return "in_out";
  }
  return "unknown";
}

std::string_view name_of(Access access) {
  switch (access) {
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "write";
    case Access::kReadWrite:
      return "read_write";
  }
  return "unknown";
}

Access default_access(BufferRole role) {
  switch (role) {
    case BufferRole::kInput:
    case BufferRole::kConstant:
      return Access::kRead;
    case BufferRole::kOutput:
      return Access::kWrite;
    case BufferRole::kTemporary:
    case BufferRole::kInOut:
      break;
  }
  return Access::kReadWrite;
}

}  // namespace lambent::kernel_graph
