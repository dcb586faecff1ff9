// A barrier in a function that calls itself and therefore cannot be inlined; run by kernels_test.
#include <lambent/kernel.h>

__device__ int descend(int* shared, int depth) {
  if (depth == 0) return shared[(threadIdx.x + 1) % blockDim.x];
  shared[threadIdx.x] += depth;
  __syncthreads();
  const int sum = descend(shared, depth - 1);
  __syncthreads();
  return sum + shared[threadIdx.x];
}

extern "C" __global__ void recursive(int depth, int* output) {
  __shared__ int shared[64];
  shared[threadIdx.x] = threadIdx.x;
  __syncthreads();
  output[threadIdx.x] = descend(shared, depth);
}

LAMBENT_KERNEL(recursive);
