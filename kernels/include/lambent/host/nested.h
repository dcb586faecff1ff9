// Launches by kernels (dynamic parallelism): lambent-bundle makes `child<<<grid, block>>>(x)` in
// the body of a kernel `nested([](auto... a) { child(a...); }, grid, block)(x)`. The driver runs
// the child once the grid that launched it has ended. Used by kernels.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "lambent/host/failures.h"
#include "lambent/host/registration.h"

// Streams of a kernel: they are in a header of the toolkit that is left out (toolkit.h).
#ifndef cudaStreamTailLaunch
#define cudaStreamTailLaunch ((cudaStream_t)0x3)
#define cudaStreamFireAndForget ((cudaStream_t)0x4)
#endif

namespace lambent::host {

// `Call`, a lambda without captures, as a kernel with these parameters.
template <typename Call, typename... Parameters>
__attribute__((always_inline)) inline void call_nested(Parameters... parameters) {
  Call{}(parameters...);
}

template <typename Call, typename... Parameters>
struct NestedKernel {
  using Calls = Entry<&call_nested<Call, Parameters...>>;
  static constexpr emulated_kernel kernel = {
      LAMBENT_KERNEL_ABI_VERSION, 0,      Calls::count, Calls::sizes,
      Calls::alignments,          0,      kMostThreads, 32,
      Calls::run_block,           nullptr};
};

template <typename Call>
struct NestedLaunch {
  emulated_launch shape;
  bool is_tail;

  // Arrays and functions arrive as pointers, numbers as what they are: the lambda's call of the
  // kernel turns them into its parameters.
  template <typename... Parameters>
  void operator()(Parameters... parameters) const {
    launch(parameters...);
  }

  template <typename... Parameters>
  int launch(Parameters... parameters) const {
    if (block.launch->launch_child == nullptr) fail_nested_launch();
    void* pointers[sizeof...(Parameters) + 1] = {&parameters..., nullptr};
    const int error =
        block.launch->launch_child(block.launch, &NestedKernel<Call, Parameters...>::kernel, &shape,
                                   pointers, is_tail ? 1 : 0);
    if (error != 0) note_launch_error(block, error);
    return error;
  }
};

template <typename Extent>
inline emulated_dim3 extent(const Extent& given) {
  const auto whole = static_cast<dim3>(given);
  return {whole.x, whole.y, whole.z};
}

template <typename Call, typename Grid, typename Threads>
inline NestedLaunch<Call> nested(Call, const Grid& grid, const Threads& threads,
                                 size_t shared_bytes = 0, const void* stream = nullptr) {
  emulated_launch shape{};
  shape.grid = extent(grid);
  shape.block = extent(threads);
  // More than the driver takes stays more than it takes.
  shape.dynamic_shared_bytes =
      shared_bytes > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(shared_bytes);
  return {shape, stream == reinterpret_cast<const void*>(0x3)};
}

inline int peek_launch_error() { return block.launch_errors[linear(threadIdx)]; }

inline int take_launch_error() {
  const int error = peek_launch_error();
  if (error != 0) block.launch_errors[linear(threadIdx)] = 0;
  return error;
}

// What copies and fills memory as a child of one thread, in the order of the launches.
inline void copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                      size_t height) {
  for (size_t row = 0; row < height; ++row) {
    memmove(static_cast<char*>(to) + row * to_pitch,
            static_cast<const char*>(from) + row * from_pitch, width);
  }
}
inline void fill_rows(void* to, size_t pitch, int value, size_t width, size_t height) {
  for (size_t row = 0; row < height; ++row) {
    memset(static_cast<char*>(to) + row * pitch, value, width);
  }
}
template <typename Call, typename... Parameters>
inline int launch_single(Call call, const void* stream, Parameters... parameters) {
  return nested(call, 1, 1, 0, stream).launch(parameters...);
}

}  // namespace lambent::host

// What kernels may call of the runtime. The host's code calls it too, but does not run here: what
// is not defined here would be the host's, on a thread of the driver, which refuses it.
#ifdef __CUDA_RUNTIME_API_H__
#define LAMBENT_OF_DEVICE extern "C" __attribute__((visibility("hidden"), noinline)) inline
LAMBENT_OF_DEVICE cudaError_t cudaGetLastError() {
  return static_cast<cudaError_t>(lambent::host::take_launch_error());
}
LAMBENT_OF_DEVICE cudaError_t cudaPeekAtLastError() {
  return static_cast<cudaError_t>(lambent::host::peek_launch_error());
}

// Children run one after the other, in the order of their launches: streams and events add nothing.
LAMBENT_OF_DEVICE cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
LAMBENT_OF_DEVICE cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
LAMBENT_OF_DEVICE cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return cudaSuccess;
}
LAMBENT_OF_DEVICE cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = nullptr;
  return cudaSuccess;
}
LAMBENT_OF_DEVICE cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
LAMBENT_OF_DEVICE cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }

// The host's code runs here at most to initialize variables: there is no launch then.
LAMBENT_OF_DEVICE cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width,
                                                size_t height, cudaStream_t stream) {
  if (lambent::host::block.launch == nullptr) return cudaErrorNotSupported;
  return static_cast<cudaError_t>(
      lambent::host::launch_single([](auto... given) { lambent::host::fill_rows(given...); },
                                   stream, to, pitch, value, width, height));
}
LAMBENT_OF_DEVICE cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                                              cudaStream_t stream) {
  return cudaMemset2DAsync(to, bytes, value, bytes, 1, stream);
}
LAMBENT_OF_DEVICE cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                                size_t from_pitch, size_t width, size_t height,
                                                cudaMemcpyKind, cudaStream_t stream) {
  if (lambent::host::block.launch == nullptr) return cudaErrorNotSupported;
  return static_cast<cudaError_t>(
      lambent::host::launch_single([](auto... given) { lambent::host::copy_rows(given...); },
                                   stream, to, to_pitch, from, from_pitch, width, height));
}
LAMBENT_OF_DEVICE cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                                              cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

// In a kernel they are malloc and free.
LAMBENT_OF_DEVICE cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = bytes == 0 ? nullptr : malloc(bytes);
  return bytes == 0 || *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
LAMBENT_OF_DEVICE cudaError_t cudaFree(void* memory) {
  free(memory);
  return cudaSuccess;
}

#define LAMBENT_NOT_OF_DEVICE(name, ...) \
  LAMBENT_OF_DEVICE cudaError_t name(__VA_ARGS__) { return cudaErrorNotSupported; }
LAMBENT_NOT_OF_DEVICE(cudaDeviceGetAttribute, int*, cudaDeviceAttr, int)
LAMBENT_NOT_OF_DEVICE(cudaDeviceGetCacheConfig, cudaFuncCache*)
LAMBENT_NOT_OF_DEVICE(cudaDeviceGetLimit, size_t*, cudaLimit)
LAMBENT_NOT_OF_DEVICE(cudaFuncGetAttributes, cudaFuncAttributes*, const void*)
LAMBENT_NOT_OF_DEVICE(cudaGetDevice, int*)
LAMBENT_NOT_OF_DEVICE(cudaGetDeviceCount, int*)
LAMBENT_NOT_OF_DEVICE(cudaGraphLaunch, cudaGraphExec_t, cudaStream_t)
LAMBENT_NOT_OF_DEVICE(cudaMemcpy3DAsync, const cudaMemcpy3DParms*, cudaStream_t)
LAMBENT_NOT_OF_DEVICE(cudaMemset3DAsync, cudaPitchedPtr, int, cudaExtent, cudaStream_t)
LAMBENT_NOT_OF_DEVICE(cudaOccupancyMaxActiveBlocksPerMultiprocessor, int*, const void*, int, size_t)
LAMBENT_NOT_OF_DEVICE(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int*, const void*,
                      int, size_t, unsigned)
#undef LAMBENT_NOT_OF_DEVICE
#undef LAMBENT_OF_DEVICE
#endif
