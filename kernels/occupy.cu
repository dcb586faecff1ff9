// Occupies the device for a stated time. On the emulated device the argument is the modelled
// duration and the body does nothing; on a GPU one thread of each block spins on the clock.
#include <lambent/kernel.h>

extern "C" __global__ void occupy(unsigned long long nanoseconds) {
#if defined(__CUDACC__)
  if (threadIdx.x != 0) return;
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
#else
  (void)nanoseconds;
#endif
}

LAMBENT_KERNEL_DURATION(occupy,
                        [](dim3, dim3, unsigned long long nanoseconds) { return nanoseconds; });
LAMBENT_KERNEL(occupy);
