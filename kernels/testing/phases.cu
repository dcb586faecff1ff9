// Kernels whose threads arrive and wait apart, copy while others compute, and meet in tiles of more
// than a warp; run by kernels_test.
#include <lambent/kernel.h>

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

constexpr int kStages = 3;
constexpr int kWidth = 8;

template <unsigned Size>
__device__ void use_wide_tile(int* out) {
  auto tile = cg::tiled_partition<Size>(cg::this_thread_block());
  const int value = static_cast<int>(threadIdx.x);
  out[0] = cg::reduce(tile, value, cg::plus<int>());
  out[1] = tile.shfl(value, 3);
  out[2] = tile.any(value == 70);
  out[3] = tile.all(value < 128);
  out[4] = static_cast<int>(tile.meta_group_rank() * 100 + tile.meta_group_size());
  out[5] = static_cast<int>(tile.thread_rank());
}

extern "C" {

// In each round every thread brings a number, does something else, and takes the sum away.
__global__ void arrive_then_wait(int rounds, int* sums) {
  __shared__ cuda::barrier<cuda::thread_scope_block> meets;
  __shared__ int sum[2];
  if (threadIdx.x == 0) {
    init(&meets, blockDim.x);
    sum[0] = sum[1] = 0;
  }
  __syncthreads();
  for (int round = 0; round < rounds; ++round) {
    atomicAdd(&sum[round % 2], static_cast<int>(threadIdx.x) + round);
    auto token = meets.arrive();
    int unrelated = 0;
    for (int i = 0; i < 10; ++i) unrelated += i;
    meets.wait(token);
    sums[round * blockDim.x + threadIdx.x] = sum[round % 2] + unrelated;
    meets.arrive_and_wait();
    if (threadIdx.x == 0) sum[round % 2] = 0;
  }
}

// Those that leave are no longer waited for.
__global__ void drop_out(int* counts) {
  __shared__ cuda::barrier<cuda::thread_scope_block> meets;
  __shared__ int count;
  if (threadIdx.x == 0) {
    init(&meets, blockDim.x);
    count = 0;
  }
  __syncthreads();
  if (threadIdx.x % 2 == 1) {
    meets.arrive_and_drop();
    return;
  }
  meets.arrive_and_wait();
  atomicAdd(&count, 1);
  auto token = meets.arrive();
  while (!meets.try_wait(token)) {
  }
  counts[threadIdx.x] = count;
}

// The threads of the second row bring rows of numbers; those of the first add them up.
__global__ void produce_and_consume(const int* rows, int count, int* sums) {
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  __shared__ int stages[kStages][kWidth];
  auto block = cg::this_thread_block();
  const bool brings = threadIdx.y == 1;
  auto pipe = cuda::make_pipeline(
      block, &state, brings ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
  int sum = 0;
  for (int row = 0; row < count; ++row) {
    int* const stage = stages[row % kStages];
    if (brings) {
      pipe.producer_acquire();
      cuda::memcpy_async(&stage[threadIdx.x], &rows[row * kWidth + threadIdx.x],
                         cuda::aligned_size_t<4>(4), pipe);
      pipe.producer_commit();
    } else {
      pipe.consumer_wait();
      for (int i = 0; i < kWidth; ++i) sum += stage[i] * (i == static_cast<int>(threadIdx.x) ? 10 : 1);
      pipe.consumer_release();
    }
  }
  if (!brings) sums[threadIdx.x] = sum;
}

__global__ void copies(const int* from, int* to) {
  __shared__ int numbers[64];
  __shared__ cuda::barrier<cuda::thread_scope_block> meets;
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&meets, blockDim.x);
  block.sync();
  cg::memcpy_async(block, numbers, from, 32 * sizeof(int));
  cg::wait(block);
  cuda::memcpy_async(block, numbers + 32, from + 32, 32 * sizeof(int), meets);
  meets.arrive_and_wait();
  cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
  pipe.producer_acquire();
  int mine = 0;
  cuda::memcpy_async(&mine, &numbers[63 - threadIdx.x], sizeof mine, pipe);
  pipe.producer_commit();
  cuda::pipeline_consumer_wait_prior<0>(pipe);
  to[threadIdx.x] = mine;
}

__global__ void wide_tiles(int* output) {
  __shared__ cg::block_tile_memory<256> memory;
  cg::this_thread_block(memory);
  use_wide_tile<64>(output + threadIdx.x * 12);
  use_wide_tile<256>(output + threadIdx.x * 12 + 6);
}

}  // extern "C"

LAMBENT_KERNEL(arrive_then_wait);
LAMBENT_KERNEL(drop_out);
LAMBENT_KERNEL(produce_and_consume);
LAMBENT_KERNEL(copies);
LAMBENT_KERNEL(wide_tiles);
