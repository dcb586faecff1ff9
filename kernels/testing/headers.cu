// Headers of libraries behind ours, and functions of theirs in a kernel; run by kernels_test.
#include <lambent/kernel.h>

#include <time.h>

#include <array>
#include <cctype>

extern "C" __global__ void uses_headers(int* output) {
  const std::array<int, 3> values = {1, 2, 3};
  __syncthreads();
  output[threadIdx.x] = values[threadIdx.x % 3] + tolower('A') + (clock() == -2 ? 1 : 0);
}

LAMBENT_KERNEL(uses_headers);
