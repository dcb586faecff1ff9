// Kernels with shared memory whose size the launch decides; run by kernels_test.
#include <lambent/kernel.h>

// The sum of a block's inputs.
extern "C" __global__ void dynamic_sum(const int* input, int* sums) {
  extern __shared__ int dynamic_partial[];
  const int i = threadIdx.x;
  dynamic_partial[i] = input[blockIdx.x * blockDim.x + i];
  __syncthreads();
  if (i == 0) {
    int sum = 0;
    for (unsigned j = 0; j < blockDim.x; ++j) sum += dynamic_partial[j];
    sums[blockIdx.x] = sum;
  }
}

// The same memory under a second name and type.
extern "C" __global__ void dynamic_reverse(const double* input, double* output) {
  extern __shared__ double dynamic_values[];
  const unsigned i = threadIdx.x;
  dynamic_values[i] = input[i];
  __syncthreads();
  output[i] = dynamic_values[blockDim.x - 1 - i];
}

LAMBENT_KERNEL(dynamic_sum);
LAMBENT_KERNEL(dynamic_reverse);
