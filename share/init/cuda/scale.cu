#include <lambent/kernel.h>

// docs/guides/kernels.md says what kernels can use.
extern "C" __global__ void scale(const float* x, float* y, float factor, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] * factor;
}

LAMBENT_KERNEL(scale);
