// Occupancy queries: how many blocks of a kernel a multiprocessor holds.
#include "emulator/emulated_cuda/occupancy.h"

#include <algorithm>

#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle, int threads,
                                                     size_t dynamic_shared) {
  WITH_PROCESS();
  auto function = find_function(*process, handle);
  if (!blocks || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  bool too_large = threads > kMostThreadsPerBlock;
  *blocks = too_large ? 0
                      : resident_blocks(process->spec(function->module->device), *function->kernel,
                                        threads, dynamic_shared);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                              int threads, size_t dynamic_shared,
                                                              unsigned int flags) {
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, dynamic_shared);
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction handle,
                                          CUoccupancyB2DSize shared_of_block, size_t dynamic_shared,
                                          int limit) {
  WITH_PROCESS();
  auto function = find_function(*process, handle);
  if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  const DeviceSpec& spec = process->spec(function->module->device);
  int most = most_threads_per_block(*function->kernel);
  if (limit > 0) most = std::min(most, limit);
  int best = 0, best_block = 0, best_resident = 0;
  for (int threads = std::max(32, most / 32 * 32); threads >= 32; threads -= 32) {
    size_t shared = shared_of_block ? shared_of_block(threads) : dynamic_shared;
    int resident = resident_blocks(spec, *function->kernel, threads, shared);
    if (resident * threads <= best) continue;
    best = resident * threads;
    best_block = threads;
    best_resident = resident;
  }
  *block = best_block;
  *grid = best_resident * spec.multiprocessors;
  return CUDA_SUCCESS;
}

extern "C" __attribute__((visibility("default"))) CUresult
cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                          CUoccupancyB2DSize shared_of_block, size_t dynamic_shared,
                                          int limit, unsigned int flags) {
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  return cuOccupancyMaxPotentialBlockSize(grid, block, function, shared_of_block, dynamic_shared,
                                          limit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle, int blocks,
                                                 int threads) {
  WITH_PROCESS();
  auto function = find_function(*process, handle);
  if (!bytes || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  const DeviceSpec& spec = process->spec(function->module->device);
  size_t per_block = static_cast<size_t>(spec.shared_bytes_per_multiprocessor / blocks);
  per_block = std::min<size_t>(per_block, spec.shared_bytes_per_block_optin);
  size_t fixed = function->kernel->static_shared_bytes;
  *bytes = per_block > fixed ? per_block - fixed : 0;
  return CUDA_SUCCESS;
}
