#include "emulator/emulated_node/nvml_mig_handles.h"

namespace lambent::emulated_node {

namespace {

constexpr uintptr_t kGpuInstances = 0x10000, kComputeInstances = 0x20000;  // of handles

nvmlReturn_t lock_instance(uintptr_t number, Found* found) {
  found->node = nvml_node();
  if (!found->node) return NVML_ERROR_UNINITIALIZED;
  if (number >= static_cast<uintptr_t>(kMaxDevices * kMaxInstances)) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  found->device = static_cast<int>(number) / kMaxInstances;
  found->slot = static_cast<int>(number) % kMaxInstances;
  found->family = found->node->mig_family();
  if (!found->family) return NVML_ERROR_NOT_SUPPORTED;
  found->guard = std::make_unique<Node::Guard>(*found->node);
  return NVML_SUCCESS;
}

}  // namespace

nvmlReturn_t as_nvml(MigResult result) {
  switch (result) {
    case MigResult::kDone:
      return NVML_SUCCESS;
    case MigResult::kNotSupported:
      return NVML_ERROR_NOT_SUPPORTED;
    case MigResult::kInvalid:
      return NVML_ERROR_INVALID_ARGUMENT;
    case MigResult::kNotFound:
      return NVML_ERROR_NOT_FOUND;
    case MigResult::kNoRoom:
      return NVML_ERROR_INSUFFICIENT_RESOURCES;
    case MigResult::kInUse:
      return NVML_ERROR_IN_USE;
  }
  return NVML_ERROR_UNKNOWN;
}

nvmlGpuInstance_t gpu_handle(int device, int slot) {
  return reinterpret_cast<nvmlGpuInstance_t>(kGpuInstances +
                                             static_cast<uintptr_t>(device * kMaxInstances + slot));
}

nvmlComputeInstance_t compute_handle(int device, int slot) {
  return reinterpret_cast<nvmlComputeInstance_t>(
      kComputeInstances + static_cast<uintptr_t>(device * kMaxInstances + slot));
}

nvmlReturn_t lock_device(nvmlDevice_t handle, Found* found) {
  if (nvmlReturn_t result = find_device(handle, &found->node, &found->device)) return result;
  found->family = found->node->mig_family();
  if (!found->family) return NVML_ERROR_NOT_SUPPORTED;
  found->guard = std::make_unique<Node::Guard>(*found->node);
  return NVML_SUCCESS;
}

nvmlReturn_t lock_gpu(nvmlGpuInstance_t handle, Found* found) {
  nvmlReturn_t result = lock_instance(reinterpret_cast<uintptr_t>(handle) - kGpuInstances, found);
  if (result) return result;
  return found->gpu().used ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t lock_compute(nvmlComputeInstance_t handle, Found* found) {
  nvmlReturn_t result =
      lock_instance(reinterpret_cast<uintptr_t>(handle) - kComputeInstances, found);
  if (result) return result;
  return found->compute().used ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

}  // namespace lambent::emulated_node
