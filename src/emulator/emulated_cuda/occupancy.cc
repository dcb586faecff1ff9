#include "emulator/emulated_cuda/occupancy.h"

#include <algorithm>
#include <cstdint>

namespace lambent::emulated_cuda {

int resident_blocks(const emulated_node::DeviceSpec& spec, const emulated_kernel& kernel,
                    int threads, size_t dynamic_shared_bytes) {
  if (threads <= 0) return 0;
  int whole_warps = (threads + 31) / 32 * 32;
  int64_t blocks =
      std::min(spec.blocks_per_multiprocessor, spec.threads_per_multiprocessor / whole_warps);
  if (kernel.registers_per_thread > 0) {
    int64_t registers = int64_t{kernel.registers_per_thread} * whole_warps;
    blocks = std::min<int64_t>(blocks, spec.registers_per_multiprocessor / registers);
  }
  size_t shared = kernel.static_shared_bytes + dynamic_shared_bytes;
  if (shared > 0) {
    size_t fitting = static_cast<size_t>(spec.shared_bytes_per_multiprocessor) / shared;
    blocks = std::min<int64_t>(blocks, static_cast<int64_t>(fitting));
  }
  return static_cast<int>(std::max<int64_t>(0, blocks));
}

int most_threads_per_block(const emulated_kernel& kernel) {
  uint32_t stated = kernel.max_threads_per_block;
  return stated ? static_cast<int>(std::min<uint32_t>(kMostThreadsPerBlock, stated))
                : kMostThreadsPerBlock;
}

CUresult check_shape(const emulated_kernel& kernel, const emulated_launch& launch) {
  const emulated_dim3 &grid = launch.grid, &block = launch.block;
  if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (grid.x > 0x7FFFFFFF || grid.y > 65535 || grid.z > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (block.x > 1024 || block.y > 1024 || block.z > 64) return CUDA_ERROR_INVALID_VALUE;
  uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool fits = threads <= static_cast<uint64_t>(most_threads_per_block(kernel));
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace lambent::emulated_cuda
