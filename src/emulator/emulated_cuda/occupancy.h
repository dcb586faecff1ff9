// How much of a multiprocessor a kernel takes: pure arithmetic over a device and a kernel. Used by
// the occupancy queries, by the checks of a launch and by the model of its duration; any thread.
#pragma once

#include <cstddef>

#include "emulator/emulated_node/machine.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/cuda_abi/emulated_kernel.h"

namespace lambent::emulated_cuda {

constexpr int kMostThreadsPerBlock = 1024;

// Blocks of `threads` threads that one multiprocessor holds at a time; 0 if not even one fits.
int resident_blocks(const emulated_node::DeviceSpec& spec, const emulated_kernel& kernel,
                    int threads, size_t dynamic_shared_bytes);

// The most threads that a block of this kernel may have.
int most_threads_per_block(const emulated_kernel& kernel);

// Whether any device can run a grid of this shape of the kernel.
CUresult check_shape(const emulated_kernel& kernel, const emulated_launch& shape);

}  // namespace lambent::emulated_cuda
