// The kernels of the conformance suite. lambent-bundle compiles them for the emulated driver and,
// where there is a CUDA toolkit, to PTX for a GPU: both must do the same.
#include <lambent/kernel.h>

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_fp16.h>

extern "C" {

// Read by the tests under its own name.
__device__ int counter[4] = {1, 2, 3, 4};

__global__ void add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

// Counts its blocks, so that a test can see that each ran exactly once.
__global__ void count(unsigned* blocks) {
  if (threadIdx.x == 0) atomicAdd(blocks, 1u);
}

// Takes `ns` on the whole device: by the model on the emulated one, by the clock on a GPU.
__global__ void busy(unsigned long long ns) {
#if defined(__CUDACC__)
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
#else
  (void)ns;
#endif
}

// Counts its launches; once there are `rounds` it ends the loop of a graph's conditional node.
__global__ void count_down(unsigned* launches, unsigned rounds, cudaGraphConditionalHandle loop) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  *launches += 1;
  cudaGraphSetConditional(loop, *launches < rounds);
}

__global__ void set_condition(cudaGraphConditionalHandle condition, unsigned value) {
  if (blockIdx.x == 0 && threadIdx.x == 0) cudaGraphSetConditional(condition, value);
}

// Stores where it is told, be there memory or not.
__global__ void store(int* to) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *static_cast<volatile int*>(to) = 1;
}

// Ends only with its process.
__global__ void endless() {
  for (;;) __nanosleep(1000000);
}

// One block each: input, output, one element for each thread.
__global__ void language_warp_sum(const int* input, int* output) {
  int value = input[threadIdx.x];
  for (int lanes = 1; lanes < 32; lanes *= 2) value += __shfl_xor_sync(~0u, value, lanes);
  output[threadIdx.x] = value;
}

__global__ void language_divergence(const int* input, int* output) {
  int value = input[threadIdx.x];
  if (threadIdx.x % 32 < 16) {
    for (int lanes = 1; lanes < 16; lanes *= 2) value += __shfl_xor_sync(0xffffu, value, lanes);
  } else {
    value = __shfl_sync(0xffff0000u, value, 31);
  }
  output[threadIdx.x] = value;
}

// Even numbers vote yes.
__global__ void language_votes(const int* input, unsigned* output) {
  const unsigned there = threadIdx.x < blockDim.x / 32 * 32 ? ~0u : (1u << blockDim.x % 32) - 1;
  output[threadIdx.x] = __ballot_sync(there, input[threadIdx.x] % 2 == 0);
}

__global__ void language_tiles(const int* input, int* output) {
  namespace cg = cooperative_groups;
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  const int value = input[threadIdx.x];
  const int sum = cg::reduce(tile, value, cg::plus<int>());
  output[threadIdx.x] = sum * 10000 + cg::inclusive_scan(tile, value, cg::plus<int>());
}

__global__ void language_reverse(const int* input, int* output) {
  extern __shared__ int language_values[];
  language_values[threadIdx.x] = input[threadIdx.x];
  __syncthreads();
  output[threadIdx.x] = language_values[blockDim.x - 1 - threadIdx.x];
}

__global__ void language_halves(const float* input, unsigned short* output) {
  output[threadIdx.x] = __half_as_ushort(__float2half_rn(input[threadIdx.x]));
}

}  // extern "C"

LAMBENT_KERNEL(add);
LAMBENT_KERNEL(count);
LAMBENT_KERNEL(count_down);
LAMBENT_KERNEL(set_condition);
LAMBENT_KERNEL(store);
LAMBENT_KERNEL_DURATION(busy, [](dim3, dim3, unsigned long long ns) { return ns; });
LAMBENT_KERNEL(busy);
LAMBENT_KERNEL(endless);
LAMBENT_KERNEL(language_warp_sum);
LAMBENT_KERNEL(language_divergence);
LAMBENT_KERNEL(language_votes);
LAMBENT_KERNEL(language_tiles);
LAMBENT_KERNEL(language_reverse);
LAMBENT_KERNEL(language_halves);
