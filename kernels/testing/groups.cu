// Kernels that use cooperative groups; run by kernels_test.
#include <lambent/kernel.h>

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

struct Wide {
  double value;
  int place;
};

// For any group: the idiom of the first days.
__device__ int sum_in_group(cg::thread_group group, int* scratch, int value) {
  const int rank = group.thread_rank();
  for (int half = group.size() / 2; half > 0; half /= 2) {
    scratch[rank] = value;
    group.sync();
    if (rank < half) value += scratch[rank + half];
    group.sync();
  }
  return value;
}

template <int Size>
__device__ void use_tile(int* out) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<Size> tile = cg::tiled_partition<Size>(block);
  const int rank = tile.thread_rank();
  out[0] = tile.shfl(rank * 10, Size - 1);
  out[1] = tile.shfl_down(rank, 1);
  out[2] = tile.shfl_up(rank, 1);
  out[3] = tile.shfl_xor(rank, 1);
  out[4] = static_cast<int>(tile.ballot(rank % 2));
  out[5] = cg::reduce(tile, rank, cg::plus<int>());
  out[6] = cg::reduce(tile, rank, cg::greater<int>());
  out[7] = cg::inclusive_scan(tile, rank);
  out[8] = cg::exclusive_scan(tile, rank);
  const Wide wide = tile.shfl(Wide{rank + 0.5, rank}, 1);
  out[9] = static_cast<int>(wide.value * 2) + wide.place;
}

extern "C" {

__global__ void block_and_tiles(const int* input, int* sums) {
  __shared__ int scratch[256];
  cg::thread_block block = cg::this_thread_block();
  const int value = input[block.thread_rank()];
  const int sum = sum_in_group(block, scratch, value);
  if (block.thread_rank() == 0) sums[0] = sum;
  auto tile = cg::tiled_partition(block, 16);
  const int part = sum_in_group(tile, scratch + block.thread_rank() / 16 * 16, value);
  if (tile.thread_rank() == 0) sums[1 + block.thread_rank() / 16] = part;
}

__global__ void tiles(int* output) {
  use_tile<4>(output + threadIdx.x * 30);
  use_tile<16>(output + threadIdx.x * 30 + 10);
  use_tile<32>(output + threadIdx.x * 30 + 20);
}

__global__ void coalesced(int* output) {
  int* out = output + threadIdx.x * 9;
  if (threadIdx.x % 3 == 1) {
    auto group = cg::coalesced_threads();
    out[0] = group.size();
    out[1] = group.thread_rank();
    out[2] = group.shfl(threadIdx.x, 2);
    out[3] = cg::reduce(group, static_cast<int>(threadIdx.x), cg::plus<int>());
    auto part = cg::binary_partition(group, group.thread_rank() < 4);
    out[4] = part.size() * 100 + part.thread_rank();
    auto tile = cg::tiled_partition(group, 4);
    out[5] = tile.size() * 100 + tile.thread_rank();
    out[6] = tile.meta_group_size() * 100 + tile.meta_group_rank();
    out[7] = tile.shfl(threadIdx.x, 0);
    const cg::thread_group& plain = group;
    out[8] = cg::tiled_partition(plain, 4).size();
  }
}

__global__ void last_tile(unsigned* sizes) {
  sizes[threadIdx.x] = cg::tiled_partition(cg::this_thread_block(), 16).size();
}

// Every block adds to `total`, and after the grid has met every block sees the sum.
__global__ void grid_sum(int* total, int* seen) {
  cg::grid_group grid = cg::this_grid();
  if (!grid.is_valid()) return;
  for (int round = 0; round < 3; ++round) {
    atomicAdd(total, 1);
    grid.sync();
    if (cg::this_thread_block().thread_rank() == 0) seen[grid.block_rank() * 3 + round] = *total;
    grid.sync();
  }
}

}  // extern "C"

LAMBENT_KERNEL(block_and_tiles);
LAMBENT_KERNEL(tiles);
LAMBENT_KERNEL(coalesced);
LAMBENT_KERNEL(last_tile);
LAMBENT_KERNEL(grid_sum);
