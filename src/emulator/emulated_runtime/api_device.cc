// Devices, and which of them a thread works on.
#include <atomic>
#include <cstring>

#include "emulator/emulated_runtime/api.h"
#include "emulator/emulated_runtime/registry.h"

using namespace lambent::emulated_runtime;

RUNTIME_API cudaGetDeviceCount(int* count) {
  if (!count) return record(cudaErrorInvalidValue);
  *count = 0;
  WITH_DRIVER();
  RETURN_IF_ERROR(cu.device_get_count(count));
  return *count == 0 ? record(cudaErrorNoDevice) : cudaSuccess;
}

RUNTIME_API cudaSetDevice(int device) {
  WITH_DRIVER();
  return record(set_thread_device(cu, device));
}

RUNTIME_API cudaGetDevice(int* device) {
  WITH_DRIVER();
  if (!device) return record(cudaErrorInvalidValue);
  CUdevice of_context = 0;
  CUcontext current = nullptr;
  // A context that the program made current itself decides.
  if (cu.ctx_get_current(&current) == CUDA_SUCCESS && current &&
      cu.ctx_get_device(&of_context) == CUDA_SUCCESS) {
    *device = of_context;
  } else {
    *device = thread_device();
  }
  return cudaSuccess;
}

RUNTIME_API cudaInitDevice(int device, unsigned int device_flags, unsigned int flags) {
  WITH_DRIVER();
  if (flags & ~static_cast<unsigned>(cudaInitDeviceFlagsAreValid)) {
    return record(cudaErrorInvalidValue);
  }
  if (flags & cudaInitDeviceFlagsAreValid) {
    RETURN_IF_ERROR(cu.device_primary_ctx_set_flags(device, device_flags));
  }
  CUcontext context;
  return record(primary_context(cu, device, &context));
}

RUNTIME_API cudaSetDeviceFlags(unsigned int flags) {
  WITH_DRIVER();
  return record(cu.device_primary_ctx_set_flags(thread_device(), flags));
}

RUNTIME_API cudaGetDeviceFlags(unsigned int* flags) {
  WITH_DRIVER();
  if (!flags) return record(cudaErrorInvalidValue);
  int active = 0;
  RETURN_IF_ERROR(cu.device_primary_ctx_get_state(thread_device(), flags, &active));
  *flags |= cudaDeviceMapHost;  // always so under unified addressing
  return cudaSuccess;
}

RUNTIME_API cudaSetValidDevices(int* devices, int length) {
  WITH_DRIVER();
  int count = 0;
  RETURN_IF_ERROR(cu.device_get_count(&count));
  if (length < 0 || (length > 0 && !devices)) return record(cudaErrorInvalidValue);
  for (int i = 0; i < length; i++) {
    if (devices[i] < 0 || devices[i] >= count) return record(cudaErrorInvalidDevice);
  }
  set_first_device(length > 0 ? devices[0] : 0);
  return cudaSuccess;
}

RUNTIME_API cudaDeviceReset() {
  WITH_DRIVER();
  if (cudaError_t error = reset_device(cu, thread_device())) return record(error);
  Registry::get().forget_ended(cu);
  return cudaSuccess;
}

RUNTIME_API cudaDeviceSynchronize() {
  WITH_CONTEXT();
  return record(cu.ctx_synchronize());
}

RUNTIME_API cudaDeviceGetAttribute(int* value, CUdevice_attribute attribute, int device) {
  WITH_DRIVER();
  return record(cu.device_get_attribute(value, attribute, device));
}

RUNTIME_API cudaDeviceGetByPCIBusId(int* device, const char* id) {
  WITH_DRIVER();
  return record(cu.device_get_by_pci_bus_id(device, id));
}

RUNTIME_API cudaDeviceGetPCIBusId(char* id, int length, int device) {
  WITH_DRIVER();
  return record(cu.device_get_pci_bus_id(id, length, device));
}

RUNTIME_API cudaDeviceGetLimit(size_t* value, CUlimit limit) {
  WITH_CONTEXT();
  return record(cu.ctx_get_limit(value, limit));
}

RUNTIME_API cudaDeviceSetLimit(CUlimit limit, size_t value) {
  WITH_CONTEXT();
  return record(cu.ctx_set_limit(limit, value));
}

RUNTIME_API cudaDeviceGetCacheConfig(CUfunc_cache* configuration) {
  WITH_CONTEXT();
  return record(cu.ctx_get_cache_config(configuration));
}

RUNTIME_API cudaDeviceSetCacheConfig(CUfunc_cache configuration) {
  WITH_CONTEXT();
  return record(cu.ctx_set_cache_config(configuration));
}

// Banks of shared memory have four bytes on every device of the last ten years.
RUNTIME_API cudaDeviceGetSharedMemConfig(int* configuration) {
  WITH_CONTEXT();
  if (!configuration) return record(cudaErrorInvalidValue);
  *configuration = 1;
  return cudaSuccess;
}

RUNTIME_API cudaDeviceSetSharedMemConfig(int configuration) {
  WITH_CONTEXT();
  return configuration < 0 || configuration > 2 ? record(cudaErrorInvalidValue) : cudaSuccess;
}

RUNTIME_API cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  WITH_CONTEXT();
  return record(cu.ctx_get_stream_priority_range(least, greatest));
}

RUNTIME_API cudaCtxResetPersistingL2Cache() {
  WITH_CONTEXT();
  return record(cu.ctx_reset_persisting_l2_cache());
}
