// What the files of NVML's functions for MIG share: handles of instances, and the node locked while
// one is looked at. Any thread.
#pragma once

#include <algorithm>
#include <vector>

#include "emulator/emulated_node/nvml_handles.h"

namespace lambent::emulated_node {

nvmlReturn_t as_nvml(MigResult result);

nvmlGpuInstance_t gpu_handle(int device, int slot);
nvmlComputeInstance_t compute_handle(int device, int slot);

// An instance found by its handle, with the node locked.
struct Found {
  std::shared_ptr<Node> node;
  std::unique_ptr<Node::Guard> guard;
  const MigFamily* family = nullptr;
  int device = 0, slot = 0;

  MigState& mig() { return (*guard)->devices[device].mig; }
  GpuInstance& gpu() { return mig().gpu[slot]; }
  ComputeInstance& compute() { return mig().compute[slot]; }
};

nvmlReturn_t lock_device(nvmlDevice_t handle, Found* found);
nvmlReturn_t lock_gpu(nvmlGpuInstance_t handle, Found* found);
nvmlReturn_t lock_compute(nvmlComputeInstance_t handle, Found* found);

// Copies a list out as NVML does: a null array asks only for the count.
template <class T>
nvmlReturn_t put_list(const std::vector<T>& list, T* out, unsigned* count) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  auto size = static_cast<unsigned>(list.size());
  if (out && *count < size) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (out) std::copy(list.begin(), list.end(), out);
  *count = size;
  return NVML_SUCCESS;
}

}  // namespace lambent::emulated_node
