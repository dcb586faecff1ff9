// The device's side of conditional nodes of graphs. Used by kernels.
#pragma once

// The address of the value that the condition reads (gpu/cuda_abi/emulated_kernel.h).
using cudaGraphConditionalHandle = unsigned long long;

inline void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value) {
  __atomic_store_n(reinterpret_cast<unsigned*>(handle), value, __ATOMIC_RELAXED);
}
