// One layer of a model: reads its weights and passes a state on. On the emulated device the last
// argument is its modelled duration; the benchmark runs there alone.
#include <lambent/kernel.h>

extern "C" __global__ void layer(const float* weights, float* state, unsigned long long) {
  if (blockIdx.x == 0 && threadIdx.x == 0) state[0] += weights[0];
}

LAMBENT_KERNEL_DURATION(layer, [](dim3, dim3, const float*, float*,
                                  unsigned long long nanoseconds) { return nanoseconds; });
LAMBENT_KERNEL(layer);
