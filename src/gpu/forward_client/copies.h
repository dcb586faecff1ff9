// A copy that a graph has come to, with this process's memory at one end or both: done on the
// thread of host functions, over when it returns.
#pragma once

#include <cstdint>

#include "gpu/forward_client/graph.h"

namespace lambent::forward_client {

CUresult copy_now(const RowCopy& copy, uint64_t stream);

}  // namespace lambent::forward_client
