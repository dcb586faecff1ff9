// The runtime API of the CUDA toolkit, as far as a host compiler should read it: what the host code
// of a program calls. Our own vector types and words stand for the toolkit's. Included before
// kernel.h, by lambent-bundle alone, when it compiles a whole program (LAMBENT_PROGRAM).
#pragma once

#include "lambent/host/vectors.h"

#if __has_include_next(<cuda_runtime.h>)
// The headers that would be in our way count as read.
#define __HOST_CONFIG_H__
#define __HOST_DEFINES_H__
#define __VECTOR_TYPES_H__
#define __VECTOR_FUNCTIONS_H__
#define __CUDA_DEVICE_RUNTIME_API_H__
#define __COMMON_FUNCTIONS_H__
#define __DEVICE_FUNCTIONS_H__
#define __DEVICE_LAUNCH_PARAMETERS_H__

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __specialization_static static
#define __inline_hint__
#define __no_return__
#define __nv_pure__
#define __NV_SILENCE_DEPRECATION_BEGIN
#define __NV_SILENCE_DEPRECATION_END
// Nobody calls them here, and a module may not leave them undefined.
#define CUDARTAPI __attribute__((weak))
#define CUDARTAPI_CDECL
#include_next <cuda_runtime_api.h>
#undef CUDARTAPI
#define CUDARTAPI
#define __CUDACC__
#include_next <cuda_runtime.h>
#if __has_include_next(<cuda_profiler_api.h>)
#include_next <cuda_profiler_api.h>
#endif
#undef __CUDACC__
#undef __host__
#undef __device__
#undef __global__
#undef __forceinline__
#undef __align__
#endif
