// Launches by kernels (dynamic parallelism): lambent-bundle makes `child<<<grid, block>>>(x)` in
// the body of a kernel `nested([](auto... a) { child(a...); }, grid, block)(x)`. The driver runs
// the child once the grid that launched it has ended. Used by kernels.
#pragma once

#include <type_traits>

#include "lambent/host/failures.h"
#include "lambent/host/registration.h"

// Streams of a kernel: they are in a header of the toolkit that is left out (toolkit.h).
#ifndef cudaStreamTailLaunch
#define cudaStreamTailLaunch ((cudaStream_t)0x3)
#define cudaStreamFireAndForget ((cudaStream_t)0x4)
#endif

namespace lambent::host {

static constinit thread_local int nested_error = 0;  // of the last launch that failed

// `Call`, a lambda without captures, as a kernel with these parameters.
template <typename Call, typename... Parameters>
__attribute__((always_inline)) inline void call_nested(Parameters... parameters) {
  Call{}(parameters...);
}

template <typename Call, typename... Parameters>
struct NestedKernel {
  using Calls = Entry<&call_nested<Call, Parameters...>>;
  static constexpr emulated_kernel kernel = {EMULATED_KERNEL_ABI_VERSION,
                                             0,
                                             Calls::count,
                                             Calls::sizes,
                                             Calls::alignments,
                                             0,
                                             kMostThreads,
                                             32,
                                             Calls::run_block,
                                             nullptr};
};

template <typename Call>
struct NestedLaunch {
  emulated_launch shape;
  bool is_tail;

  // Arrays and functions arrive as pointers, numbers as what they are: the lambda's call of the
  // kernel turns them into its parameters.
  template <typename... Parameters>
  void operator()(Parameters... parameters) const {
    if (block.launch->launch_child == nullptr) fail_nested_launch();
    void* pointers[sizeof...(Parameters) + 1] = {&parameters..., nullptr};
    const int error =
        block.launch->launch_child(block.launch, &NestedKernel<Call, Parameters...>::kernel, &shape,
                                   pointers, is_tail ? 1 : 0);
    if (error != 0) nested_error = error;
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
  shape.dynamic_shared_bytes = static_cast<uint32_t>(shared_bytes);
  return {shape, stream == reinterpret_cast<const void*>(0x3)};
}

inline int take_nested_error() {
  const int error = nested_error;
  nested_error = 0;
  return error;
}

}  // namespace lambent::host

// What kernels may call of the runtime. The host's code calls it too, but does not run here.
#ifdef __CUDA_RUNTIME_API_H__
#define LAMBENT_OF_DEVICE extern "C" __attribute__((visibility("hidden"), noinline, used)) inline
LAMBENT_OF_DEVICE cudaError_t cudaGetLastError() {
  return static_cast<cudaError_t>(lambent::host::take_nested_error());
}
LAMBENT_OF_DEVICE cudaError_t cudaPeekAtLastError() {
  return static_cast<cudaError_t>(lambent::host::nested_error);
}
LAMBENT_OF_DEVICE cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
LAMBENT_OF_DEVICE cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
#undef LAMBENT_OF_DEVICE
#endif
