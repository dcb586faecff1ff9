// Waits for and writes of words of memory in stream order, one or a batch of them, as a value.
#pragma once

#include <vector>

#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

class Process;
struct Context;

struct MemoryOperations {
  std::vector<CUstreamBatchMemOpParams> list;  // done in this order
};

// Checks kinds, flags, alignment and addresses.
CUresult check(const Process& process, const MemoryOperations& operations);

int64_t perform(Process& process, Context& context, const MemoryOperations& operations,
                int64_t begin_ns);

// Whether a wait with these flags ends when the word is `seen`: cyclic comparison for GEQ.
bool wait_is_over(const CUstreamMemOpValueParams& wait, uint64_t seen, bool wide);

}  // namespace lambent::emulated_cuda
