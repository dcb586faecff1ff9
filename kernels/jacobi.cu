// One Jacobi step for the Laplace equation on a width x height grid with fixed borders: every inner
// point becomes the mean of its four neighbours. Launch with one thread for each point.
#include <lambent/kernel.h>

extern "C" __global__ void jacobi_step(const float* __restrict__ from, float* __restrict__ to,
                                       int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const int i = y * width + x;
  if (x == 0 || y == 0 || x == width - 1 || y == height - 1) {
    to[i] = from[i];
  } else {
    to[i] = 0.25f * (from[i - 1] + from[i + 1] + from[i - width] + from[i + width]);
  }
}

// The largest change of any point, as the bits of a float in `*largest` (zero it before).
extern "C" __global__ void jacobi_change(const float* __restrict__ from,
                                         const float* __restrict__ to, int count,
                                         unsigned* largest) {
  __shared__ unsigned block_largest;
  if (threadIdx.x == 0) block_largest = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  // Bits of floats that are not negative order as the floats do.
  if (i < count) atomicMax(&block_largest, __float_as_uint(fabsf(to[i] - from[i])));
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(largest, block_largest);
}

LAMBENT_KERNEL(jacobi_step);
LAMBENT_KERNEL(jacobi_change);
