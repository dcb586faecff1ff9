// The words that CUDA adds to C++, as the host compiler should read them. Included last of the
// headers that include standard ones; used by kernels.
#pragma once

// Kernels are inlined into the launch loop, where the compiler can vectorise over threads.
#define __global__ inline __attribute__((always_inline))
// Variables must be found by name by cuModuleGetGlobal, so they are exported.
#define __device__ __attribute__((visibility("default")))
#define __constant__ __attribute__((visibility("default")))
#define __host__
// One instance per thread that runs blocks, which is one per running block. `extern __shared__`
// arrays stay undefined here: the bundle tool links one buffer under all of their names.
#define __shared__ constinit thread_local
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __restrict__ __restrict
#define __grid_constant__
