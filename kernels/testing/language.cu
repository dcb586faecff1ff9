// Kernels that use the rest of the language: atomics, globals, constants, templates, structures;
// run by kernels_test.
#include <lambent/kernel.h>

__constant__ float weights[4];
extern "C" {
__device__ unsigned long long total;
}

struct Range {
  int begin;
  int end;
  double scale;
};

extern "C" __global__ void all_atomics(int* integers, unsigned* words, unsigned long long* longs,
                                       float* floats, double* doubles) {
  const int i = threadIdx.x;
  atomicAdd(&integers[0], 1);
  atomicSub(&integers[1], 1);
  atomicMin(&integers[2], -i);
  atomicMax(&integers[3], i);
  atomicExch(&integers[4], 5);
  atomicCAS(&integers[5], 0, i + 1);
  atomicAnd(&words[0], ~(1u << (i % 32)));
  atomicOr(&words[1], 1u << (i % 32));
  atomicXor(&words[2], 1u << (i % 32));
  atomicInc(&words[3], 9u);
  atomicMax(&words[4], static_cast<unsigned>(i));
  atomicAdd(&longs[0], 1ull);
  atomicMax(&longs[1], 1ull << (i % 40));
  atomicAdd(&floats[0], 0.5f);
  atomicAdd(&doubles[0], 0.25);
  atomicAdd(&total, 1ull);
}

template <typename T, int Factor>
__device__ __forceinline__ T times(T value) {
  return value * Factor;
}

template <typename T, int Factor>
__global__ void __launch_bounds__(256) scale(const T* input, T* output, Range range) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < range.begin || i >= min(range.end, 1 << 20)) return;
  output[i] = times<T, Factor>(__ldg(&input[i])) * static_cast<T>(range.scale);
}

extern "C" __global__ void weighted(const float4* input, float* output) {
  const float4 v = input[threadIdx.x];
  output[threadIdx.x] = fmaf(v.x, weights[0], v.y * weights[1]) + __fdividef(v.z, weights[2]) +
                        rsqrtf(v.w) * weights[3];
}

extern "C" __global__ void nothing() {}

LAMBENT_KERNEL(all_atomics);
LAMBENT_KERNEL_AS(scale_float_3, scale<float, 3>);
LAMBENT_KERNEL_AS(scale_double_2, scale<double, 2>);
LAMBENT_KERNEL(weighted);
LAMBENT_KERNEL_DURATION(nothing, [](dim3 grid, dim3 block) { return grid.x * 1000ull + block.y; });
LAMBENT_KERNEL(nothing);
