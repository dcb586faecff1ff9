// Kernels that meet barriers in every way that is allowed; run by kernels_test.
#include <lambent/kernel.h>

// The sum of a block's inputs, by halves.
extern "C" __global__ void block_sum(const int* input, int* sums) {
  __shared__ int partial[256];
  const int i = threadIdx.x;
  partial[i] = input[blockIdx.x * blockDim.x + i];
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (i < half) partial[i] += partial[i + half];
    __syncthreads();
  }
  if (i == 0) sums[blockIdx.x] = partial[0];
}

// Threads at and above `leaves_from` return before the barriers, as real kernels do.
extern "C" __global__ void early_exit(int leaves_from, int* output) {
  __shared__ int shared;
  const int i = threadIdx.x;
  if (i >= leaves_from) return;
  if (i == 0) shared = 7;
  __syncthreads();
  const int seen = shared;
  __syncthreads();
  if (i == leaves_from - 1) shared = 8;
  __syncthreads();
  output[i] = seen * 100 + shared;
}

// The same with the lowest threads leaving first.
extern "C" __global__ void late_entry(int enters_from, int* output) {
  const int i = threadIdx.x;
  if (i < enters_from) return;
  const int count = __syncthreads_count(1);
  output[i] = count;
}

extern "C" __global__ void votes(int threshold, int* output) {
  const int i = threadIdx.x;
  const int count = __syncthreads_count(i < threshold);
  const int all = __syncthreads_and(i < threshold);
  const int any = __syncthreads_or(i < threshold);
  output[i] = count * 100 + all * 10 + any;
}

// Only the first warp meets the warp barriers; the others wait at the block's.
extern "C" __global__ void one_warp(int* output) {
  __shared__ int lanes[32];
  const int i = threadIdx.x;
  if (i < 32) {
    lanes[i] = i;
    __syncwarp();
    const int neighbour = lanes[(i + 1) % 32];
    __syncwarp();
    lanes[i] = neighbour * 2;
  }
  __syncthreads();
  output[i] = lanes[i % 32];
}

// Three dimensions: every thread writes where it is, after a barrier.
extern "C" __global__ void three_dimensions(unsigned* output) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  __syncthreads();
  const unsigned size = blockDim.x * blockDim.y * blockDim.z;
  output[block * size + thread] = (threadIdx.z << 16) | (threadIdx.y << 8) | threadIdx.x;
}

LAMBENT_KERNEL(block_sum);
LAMBENT_KERNEL(early_exit);
LAMBENT_KERNEL(late_entry);
LAMBENT_KERNEL(votes);
LAMBENT_KERNEL(one_warp);
LAMBENT_KERNEL(three_dimensions);
