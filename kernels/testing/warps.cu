// Kernels that use warp operations in every way that is allowed; run by kernels_test.
#include <lambent/kernel.h>

extern "C" {

// Six shuffles for each lane: broadcast within segments, rotation, up, down, xor, xor across.
__global__ void shuffles(int width, int* output) {
  const int i = threadIdx.x;
  output[i * 6 + 0] = __shfl_sync(~0u, i, 3, width);
  output[i * 6 + 1] = __shfl_sync(~0u, i, i + 1, width);
  output[i * 6 + 2] = __shfl_up_sync(~0u, i, 2, width);
  output[i * 6 + 3] = __shfl_down_sync(~0u, i, 2, width);
  output[i * 6 + 4] = __shfl_xor_sync(~0u, i, 1, width);
  output[i * 6 + 5] = __shfl_xor_sync(~0u, i, 16, width);
}

__global__ void wide_shuffles(double* doubles, unsigned long long* longs, float* floats) {
  const int i = threadIdx.x;
  doubles[i] = __shfl_down_sync(~0u, i + 0.5, 1);
  longs[i] = __shfl_xor_sync(~0u, (1ull << 40) + i, 31);
  floats[i] = __shfl_up_sync(~0u, i * 0.25f, 1);
}

__global__ void warp_sum(const int* input, int* sums) {
  int value = input[blockIdx.x * blockDim.x + threadIdx.x];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  if (threadIdx.x % 32 == 0) sums[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = value;
}

// The two halves of a warp go different ways, each with its own mask and number of rounds.
__global__ void diverge(int* output) {
  const int lane = threadIdx.x % 32;
  int value = lane;
  if (lane < 16) {
    for (int step = 8; step > 0; step /= 2) value += __shfl_xor_sync(0x0000ffffu, value, step);
  } else {
    value = __shfl_sync(0xffff0000u, value, 31);
    value += __popc(__ballot_sync(0xffff0000u, lane % 2));
  }
  __syncwarp();
  output[threadIdx.x] = value + 1000 * __shfl_sync(~0u, value, 0);
}

// Lanes from `leaves_from` return; the full mask then means those that stay.
__global__ void leave(int leaves_from, unsigned* output) {
  const int lane = threadIdx.x % 32;
  if (lane >= leaves_from) return;
  const unsigned ballot = __ballot_sync(~0u, lane % 3 == 0);
  const int all = __all_sync(~0u, lane < leaves_from);
  const int any = __any_sync(~0u, lane == 40);
  output[threadIdx.x] = ballot + (all ? 0 : 7) + (any ? 7 : 0);
}

__global__ void matches(unsigned* any, unsigned* all, int* same) {
  const int i = threadIdx.x;
  any[i] = __match_any_sync(~0u, i % 5);
  all[2 * i] = __match_all_sync(~0u, 1.5, &same[2 * i]);
  all[2 * i + 1] = __match_all_sync(~0u, i / 31, &same[2 * i + 1]);
}

__global__ void reductions(const int* input, int* output) {
  const int value = input[threadIdx.x];
  const unsigned bits = static_cast<unsigned>(value);
  int* out = output + threadIdx.x * 8;
  out[0] = __reduce_add_sync(~0u, value);
  out[1] = __reduce_min_sync(~0u, value);
  out[2] = __reduce_max_sync(~0u, value);
  out[3] = static_cast<int>(__reduce_min_sync(~0u, bits));
  out[4] = static_cast<int>(__reduce_max_sync(~0u, bits));
  out[5] = static_cast<int>(__reduce_and_sync(~0u, bits));
  out[6] = static_cast<int>(__reduce_or_sync(~0u, bits));
  out[7] = static_cast<int>(__reduce_xor_sync(~0u, bits));
}

// Who stands together: at the top, in each branch, and in a loop that lanes leave one by one.
__global__ void active(unsigned* output) {
  const int lane = threadIdx.x % 32;
  unsigned* out = output + threadIdx.x * 3;
  out[0] = __activemask();
  __syncwarp();
  if (lane % 4 == 0) {
    out[1] = __activemask();
    atomicAdd(&out[2], 0u);
  } else {
    atomicAdd(&out[2], 0u);
    out[1] = __activemask();
  }
  __syncwarp();
  for (int i = 0; i < lane / 8; ++i) out[2] = __activemask();
}

// One atomic for all lanes that stand together.
__global__ void aggregated(int* counter, int* tickets) {
  if (threadIdx.x % 3 == 0) {
    const unsigned together = __activemask();
    const int leader = __ffs(together) - 1;
    const int lane = threadIdx.x % 32;
    int first = 0;
    if (lane == leader) first = atomicAdd(counter, __popc(together));
    first = __shfl_sync(together, first, leader);
    tickets[threadIdx.x] = first + __popc(together & ((1u << lane) - 1));
  }
}

// A thread spins until another of its block has come by.
__global__ void handover(int* output) {
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    while (flag == 0) __nanosleep(100);
    output[0] = flag;
  } else if (threadIdx.x == blockDim.x - 1) {
    flag = 7;
  }
}

// It may spin before the other has begun.
__global__ void handover_at_once(int* flag, int* output) {
  volatile int* seen = flag;
  if (threadIdx.x == 0) {
    while (*seen == 0) __nanosleep(100);
    output[0] = *seen;
  } else if (threadIdx.x == blockDim.x - 1) {
    *seen = 7;
  }
}

}  // extern "C"

LAMBENT_KERNEL(shuffles);
LAMBENT_KERNEL(wide_shuffles);
LAMBENT_KERNEL(warp_sum);
LAMBENT_KERNEL(diverge);
LAMBENT_KERNEL(leave);
LAMBENT_KERNEL(matches);
LAMBENT_KERNEL(reductions);
LAMBENT_KERNEL(active);
LAMBENT_KERNEL(aggregated);
LAMBENT_KERNEL(handover);
LAMBENT_KERNEL(handover_at_once);
