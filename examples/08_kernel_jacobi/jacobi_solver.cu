// Jacobi's method for a * x = b: the matrix in float, everything else in double.
#include <lambent/kernel.h>

namespace {

constexpr int kLanes = 8;  // that share a row

}  // namespace

extern "C" __global__ void jacobi_solver_start(double* x, int size) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < size) x[row] = 0;
}

// to = from + (b - a * from) / diagonal of a. 128 threads a block, a block for each 16 rows.
extern "C" __global__ void jacobi_solver_step(const float* a, const double* b, const double* from,
                                              double* to, int size) {
  __shared__ double partial[128];
  const int row = blockIdx.x * (blockDim.x / kLanes) + threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  double sum = 0;
  if (row < size) {
    for (int column = lane; column < size; column += kLanes) {
      sum += a[static_cast<size_t>(row) * size + column] * from[column];
    }
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  if (lane != 0 || row >= size) return;
  for (int i = 1; i < kLanes; ++i) sum += partial[threadIdx.x + i];
  to[row] = from[row] + (b[row] - sum) / a[static_cast<size_t>(row) * size + row];
}

// *done = 1 if no element changed by more than the tolerance. One block.
extern "C" __global__ void jacobi_solver_done(const double* from, const double* to, int size,
                                              double tolerance, int* done) {
  __shared__ int moving;
  if (threadIdx.x == 0) moving = 0;
  __syncthreads();
  for (int row = threadIdx.x; row < size; row += blockDim.x) {
    // Not at rest either if it is no number.
    if (!(fabs(to[row] - from[row]) <= tolerance)) atomicOr(&moving, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0 && moving == 0) *done = 1;
}

// A V100 does 3000 steps with 512 rows in 52 ms.
LAMBENT_KERNEL_DURATION(jacobi_solver_step, [](dim3, dim3, const float*, const double*,
                                               const double*, double*, int size) {
  return static_cast<uint64_t>(4000 + 13333.0 * size * size / (512 * 512));
});
LAMBENT_KERNEL_DURATION(jacobi_solver_start, [](dim3, dim3, double*, int) { return 2000; });
LAMBENT_KERNEL_DURATION(jacobi_solver_done, [](dim3, dim3, const double*, const double*, int,
                                               double, int*) { return 4000; });
LAMBENT_KERNEL(jacobi_solver_start);
LAMBENT_KERNEL(jacobi_solver_step);
LAMBENT_KERNEL(jacobi_solver_done);
