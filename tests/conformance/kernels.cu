// The kernels of the conformance suite. lambent-bundle compiles them for the emulated driver and,
// where there is a CUDA toolkit, to PTX for a GPU: both must do the same.
#include <lambent/kernel.h>

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
__global__ void count_down(unsigned* launches, unsigned rounds, unsigned long long handle) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  *launches += 1;
#if !defined(__CUDACC__)  // a GPU's way needs the device runtime, which this image is not linked with
  *reinterpret_cast<unsigned*>(handle) = *launches < rounds;
#endif
}

// Ends only with its process.
__global__ void endless() {
  for (;;) __nanosleep(1000000);
}

}  // extern "C"

LAMBENT_KERNEL(add);
LAMBENT_KERNEL(count);
LAMBENT_KERNEL(count_down);
LAMBENT_KERNEL_DURATION(busy, [](dim3, dim3, unsigned long long ns) { return ns; });
LAMBENT_KERNEL(busy);
LAMBENT_KERNEL(endless);
