// Kernels whose work can be foretold from one element, for what runs graphs of them: steps that
// count, that end loops, that fault. Launch with one thread for each element.
#include <lambent/kernel.h>

// to = from * factor + summand.
extern "C" __global__ void scale(const int* from, int* to, int factor, int summand, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i] * factor + summand;
}

extern "C" __global__ void increment(int* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += 1;
}

// Sets the flag once the first value has come to the limit.
extern "C" __global__ void set_at(const int* values, int limit, unsigned* flag) {
  if (blockIdx.x == 0 && threadIdx.x == 0 && values[0] >= limit) *flag = 1;
}

// Writes to an address that no allocation has, if the first value is negative.
extern "C" __global__ void fault_below_zero(const int* values, int* to) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  if (values[0] < 0) *reinterpret_cast<volatile int*>(16) = 1;
  to[0] = values[0];
}

LAMBENT_KERNEL(scale);
LAMBENT_KERNEL(increment);
LAMBENT_KERNEL(set_at);
LAMBENT_KERNEL(fault_below_zero);
