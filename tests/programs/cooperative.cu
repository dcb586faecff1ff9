// A sum over a whole grid in one launch: tiles of a warp add up, blocks meet at a barrier of the
// grid, and the first block adds what they found.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void sum_all(const int* values, int count, int* partial, int* result) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  __shared__ int of_block;
  if (block.thread_rank() == 0) of_block = 0;
  block.sync();
  int mine = 0;
  for (unsigned i = grid.thread_rank(); i < static_cast<unsigned>(count); i += grid.size()) {
    mine += values[i];
  }
  const int of_warp = cg::reduce(warp, mine, cg::plus<int>());
  if (warp.thread_rank() == 0) atomicAdd(&of_block, of_warp);
  block.sync();
  if (block.thread_rank() == 0) partial[blockIdx.x] = of_block;
  grid.sync();
  if (grid.thread_rank() == 0) {
    int total = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) total += partial[i];
    *result = total;
  }
}

// Pairs of neighbours change places by way of tiles of two.
__global__ void swap_pairs(int* values) {
  cg::thread_block_tile<2> pair = cg::tiled_partition<2>(cg::this_thread_block());
  const int mine = values[threadIdx.x];
  values[threadIdx.x] = pair.shfl(mine, 1 - static_cast<int>(pair.thread_rank()));
}

#ifdef __CUDACC__
#include "program.h"

int main() {
  int supported = 0, per_multiprocessor = 0;
  OK(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0));
  EXPECT(supported == 1);
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  const int threads = 128;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, sum_all, threads, 0));
  EXPECT(per_multiprocessor > 0);
  const int most = per_multiprocessor * properties.multiProcessorCount;
  const int blocks = most < 16 ? most : 16;

  int count = 100'000, expected = 0;
  std::vector<int> values(count);
  for (int i = 0; i < count; ++i) expected += values[i] = i % 11 - 5;
  int* device_values = upload(values);
  int *partial = nullptr, *result = nullptr;
  OK(cudaMalloc(&partial, blocks * sizeof(int)));
  OK(cudaMalloc(&result, sizeof(int)));
  void* arguments[] = {&device_values, &count, &partial, &result};
  OK(cudaLaunchCooperativeKernel(sum_all, dim3(blocks), dim3(threads), arguments, 0, nullptr));
  EXPECT(download(result, 1)[0] == expected);

  // The same by an attribute of the launch.
  OK(cudaMemset(result, 0, sizeof(int)));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = dim3(blocks);
  configuration.blockDim = dim3(threads);
  configuration.attrs = &attribute;
  configuration.numAttrs = 1;
  OK(cudaLaunchKernelEx(&configuration, sum_all, static_cast<const int*>(device_values), count,
                        partial, result));
  EXPECT(download(result, 1)[0] == expected);

  // A grid that cannot be resident as a whole could never meet.
  EXPECT(cudaLaunchCooperativeKernel(sum_all, dim3(most + 1), dim3(threads), arguments, 0,
                                     nullptr) == cudaErrorCooperativeLaunchTooLarge);
  EXPECT(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);

  int* pairs = upload(std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  swap_pairs<<<1, 8>>>(pairs);
  LAUNCHED();
  const std::vector<int> swapped = download(pairs, 8);
  for (int i = 0; i < 8; ++i) EXPECT(swapped[i] == (i ^ 1));
  OK(cudaFree(pairs));
  OK(cudaFree(device_values));
  OK(cudaFree(partial));
  OK(cudaFree(result));
  std::puts("ok");
}
#endif
