// The words that CUDA adds to C++, as the host compiler should read them. Included last of the
// headers that include standard ones; used by kernels.
#pragma once

// Headers of libraries were read with these as empty words (bundle/program_kernels.cc).
#undef __host__
#undef __device__
#undef __forceinline__

// Kernels are inlined into the launch loop, where the compiler can vectorise over threads.
#define __global__ inline __attribute__((always_inline))
// Variables must be found by name by cuModuleGetGlobal, so they are exported.
#define __device__ __attribute__((visibility("default")))
#define __constant__ __attribute__((visibility("default")))
// The driver knows them by their section (emulator/emulated_cuda/elf_image.h).
#define __managed__ __attribute__((visibility("default"), section("managed_variables")))
#define __host__
// One instance per thread that runs blocks, which is one per running block. `extern __shared__`
// arrays stay undefined here: the bundle tool links one buffer under all of their names.
#define __shared__ constinit thread_local
// What lambent-bundle puts for a __shared__ that is not extern: also for arrays of structures.
#define LAMBENT_SHARED static __thread
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __forceinline__ inline __attribute__((always_inline))
// A function that waits must be inlined, whatever its author thought of it for a GPU.
#define __noinline__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __restrict__ __restrict
#define __grid_constant__

#ifdef LAMBENT_KERNEL_COROUTINES
// A function that waits must be inlined into its kernel, and nothing may be left of it: from here
// on all functions are. lambent-bundle ends the two regions behind the source.
#pragma clang diagnostic ignored "-Wundefined-internal"
#pragma clang attribute push(__attribute__((internal_linkage)), apply_to = function)
#pragma clang attribute push(__attribute__((always_inline)), apply_to = function)
#endif
