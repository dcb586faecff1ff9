// A copy that a graph has come to, with this process's memory at one end or both: done on the
// thread of host functions, over when it returns.
#pragma once

#include <cstdint>

#include "forwarded_cuda/graph.h"

namespace lambent::forwarded_cuda {

CUresult copy_now(const RowCopy& copy, uint64_t stream);

}  // namespace lambent::forwarded_cuda
