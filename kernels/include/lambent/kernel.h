// What a .cu file includes so that the same source compiles for the GPU (nvcc, NVRTC) and for the
// CPU (clang++, g++); on the GPU it is empty. Used by kernels only, in one source file per bundle.
#ifndef LAMBENT_KERNEL_H
#define LAMBENT_KERNEL_H

#if defined(__CUDACC__)

#if defined(__CUDACC_RTC__)
#include "lambent/device/graphs.h"
#endif

// The registrations below matter to the CPU build alone.
#define LAMBENT_KERNEL(kernel) static_assert(true, "")
#define LAMBENT_KERNEL_AS(name, ...) static_assert(true, "")
#define LAMBENT_KERNEL_DURATION(kernel, ...) static_assert(true, "")

#else

#define LAMBENT_KERNEL_HOST 1
#if !defined(__cplusplus) || __cplusplus < 202002L
#error "kernels need C++20 on the host: compile with -std=c++20 -x c++"
#endif

#include "lambent/host/index.h"
// (index.h first: the others are written in its words)
#include "lambent/host/atomics.h"
#include "lambent/host/barriers.h"
#include "lambent/host/clock.h"
#include "lambent/host/conversions.h"
#include "lambent/host/failures.h"
#include "lambent/host/graphs.h"
#include "lambent/host/integers.h"
#include "lambent/host/math.h"
#include "lambent/host/nested.h"
#include "lambent/host/ordered_atomics.h"
#include "lambent/host/ptx.h"
#include "lambent/host/registration.h"
#include "lambent/host/simd.h"
#include "lambent/host/textures.h"
#include "lambent/host/warps.h"
// (these two last: they give words of C++ another meaning)
#include "lambent/host/keywords.h"
#include "lambent/host/unsupported.h"

#endif
#endif
