// What the host compiler does not read and nvcc does: inline PTX behind a macro, and a kernel that
// only nvcc sees. Its kernels are translated from nvcc's PTX without being asked for.
#include "program.h"

#define SHIFT_LEFT_AND_ADD(result, a, b) \
  asm("{ .reg .u32 t; shl.b32 t, %1, 3; add.u32 %0, t, %2; }" : "=r"(result) : "r"(a), "r"(b))

__global__ void mix(const unsigned* a, const unsigned* b, unsigned* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned mixed;
  SHIFT_LEFT_AND_ADD(mixed, a[i], b[i]);
  out[i] = mixed;
}

#ifdef __CUDACC__
__global__ void sum_of_blocks(const unsigned* values, unsigned* sums) {
  __shared__ unsigned tile[128];
  tile[threadIdx.x] = values[blockIdx.x * 128 + threadIdx.x];
  for (unsigned half = 64; half != 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) tile[threadIdx.x] += tile[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = tile[0];
}
#endif

int main() {
  const int blocks = 23, count = blocks * 128;
  unsigned state = 5;
  std::vector<unsigned> a(count), b(count);
  for (int i = 0; i < count; ++i) {
    a[i] = next_random(&state);
    b[i] = next_random(&state);
  }
  unsigned *device_a = upload(a), *device_b = upload(b), *mixed = nullptr, *sums = nullptr;
  OK(cudaMalloc(&mixed, count * sizeof(unsigned)));
  OK(cudaMalloc(&sums, blocks * sizeof(unsigned)));
  mix<<<blocks, 128>>>(device_a, device_b, mixed, count);
  LAUNCHED();
  sum_of_blocks<<<blocks, 128>>>(mixed, sums);
  LAUNCHED();
  const auto found = download(sums, blocks);
  for (int block = 0; block < blocks; ++block) {
    unsigned sum = 0;
    for (int i = block * 128; i < (block + 1) * 128; ++i) sum += (a[i] << 3) + b[i];
    EXPECT(found[block] == sum);
  }
  for (unsigned* each : {device_a, device_b, mixed, sums}) OK(cudaFree(each));
  std::puts("ok");
  return 0;
}
