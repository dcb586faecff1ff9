// LAMBENT_KERNEL and its relatives: make a kernel callable by the emulated driver, one block at a
// time. Used by kernels at namespace scope; the code that they generate runs on the driver's
// threads.
#pragma once

#include <type_traits>
#include <utility>

#include "gpu/cuda_abi/emulated_kernel.h"
#include "lambent/host/index.h"
#ifdef LAMBENT_KERNEL_COROUTINES
#include "lambent/host/run_coroutines.h"
#else
#include "lambent/host/run_fibers.h"
#endif

namespace lambent::host {

// Specialised by LAMBENT_KERNEL_DURATION.
template <auto Kernel>
struct ModelledDuration {
  static constexpr uint64_t (*function)(const emulated_launch*, void**) = nullptr;
};

template <auto Kernel>
struct Entry;

template <typename... Parameters, void (*Kernel)(Parameters...)>
struct Entry<Kernel> {
  using Numbers = std::index_sequence_for<Parameters...>;
  static constexpr uint32_t count = sizeof...(Parameters);
  static constexpr uint32_t sizes[count + 1] = {sizeof(Parameters)..., 0};
  static constexpr uint32_t alignments[count + 1] = {alignof(Parameters)..., 0};

  static void run_block(const emulated_launch* launch, emulated_dim3 index, void** parameters) {
    blockIdx = {index.x, index.y, index.z};
    blockDim = {launch->block.x, launch->block.y, launch->block.z};
    gridDim = {launch->grid.x, launch->grid.y, launch->grid.z};
    block.launch = launch;
    if (block.has_launch_errors) forget_launch_errors(block);
    BlockRunner<Kernel, Parameters...>::run(parameters);
    block.launch = nullptr;
  }

  // Calls function(grid, block, parameters...).
  template <typename Function>
  static uint64_t call_duration(Function function, const emulated_launch* launch,
                                void** parameters) {
    const dim3 grid(launch->grid.x, launch->grid.y, launch->grid.z);
    const dim3 block_size(launch->block.x, launch->block.y, launch->block.z);
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return static_cast<uint64_t>(function(
          grid, block_size, *static_cast<std::remove_cv_t<Parameters>*>(parameters[I])...));
    }
    (Numbers{});
  }
};

}  // namespace lambent::host

// A source that was made of PTX says which before it includes this.
#ifndef LAMBENT_PTX_VERSION
#define LAMBENT_PTX_VERSION 0
#endif
// And lambent-bundle says of a source that its kernels may launch kernels.
#ifdef LAMBENT_KERNELS_LAUNCH
#define LAMBENT_KERNEL_ABI_VERSION EMULATED_KERNEL_ABI_LAUNCHES
#else
#define LAMBENT_KERNEL_ABI_VERSION EMULATED_KERNEL_ABI_VERSION
#endif

#define LAMBENT_EXPORT_ extern "C" __attribute__((visibility("default")))

// LAMBENT_KERNEL_AS(name, kernel): registers `kernel`, which may be an instance of a template such
// as matmul_tiled<16>, under a name of your choice.
#define LAMBENT_KERNEL_AS(name, ...)                              \
  LAMBENT_EXPORT_ const emulated_kernel emulated_kernel_##name;   \
  const emulated_kernel emulated_kernel_##name = {                \
      LAMBENT_KERNEL_ABI_VERSION,                                 \
      LAMBENT_PTX_VERSION,                                        \
      lambent::host::Entry<&__VA_ARGS__>::count,                  \
      lambent::host::Entry<&__VA_ARGS__>::sizes,                  \
      lambent::host::Entry<&__VA_ARGS__>::alignments,             \
      0, /* static shared memory: the bundle tool writes it in */ \
      lambent::host::kMostThreads,                                \
      32,                                                         \
      lambent::host::Entry<&__VA_ARGS__>::run_block,              \
      lambent::host::ModelledDuration<&__VA_ARGS__>::function};   \
  LAMBENT_EXPORT_ const char* const kernel_expression_##name;     \
  const char* const kernel_expression_##name = #__VA_ARGS__

// LAMBENT_KERNEL(kernel): registers an extern "C" kernel under its own name.
#define LAMBENT_KERNEL(kernel) LAMBENT_KERNEL_AS(kernel, kernel)

// LAMBENT_KERNEL_DURATION(kernel, function): how long a launch takes on the modelled device, alone:
// function(dim3 grid, dim3 block, the kernel's parameters...) returns nanoseconds. A lambda will
// do. Stands before LAMBENT_KERNEL.
#define LAMBENT_KERNEL_DURATION(kernel, ...)                                     \
  template <>                                                                    \
  struct lambent::host::ModelledDuration<&kernel> {                              \
    static uint64_t function(const emulated_launch* launch, void** parameters) { \
      return Entry<&kernel>::call_duration(__VA_ARGS__, launch, parameters);     \
    }                                                                            \
  }
