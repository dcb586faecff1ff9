// Memory of devices and page-locked memory of the host.
#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

namespace {

constexpr unsigned kPitchElement_bytes = 4;

void* pointer_to(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

// Nothing is a valid size: it gives no memory and no error.
RUNTIME_API cudaMalloc(void** pointer, size_t bytes) {
  WITH_CONTEXT();
  if (!pointer) return record(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  CUdeviceptr address = 0;
  RETURN_IF_ERROR(cu.mem_alloc(&address, bytes));
  *pointer = pointer_to(address);
  return cudaSuccess;
}

// Freeing nothing is allowed, and is how programs ask for the context to be made.
RUNTIME_API cudaFree(void* pointer) {
  WITH_CONTEXT();
  return pointer ? record(cu.mem_free(address_of(pointer))) : cudaSuccess;
}

RUNTIME_API cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  WITH_CONTEXT();
  if (!pointer || !pitch) return record(cudaErrorInvalidValue);
  *pointer = nullptr;
  *pitch = 0;
  if (width == 0 || height == 0) return cudaSuccess;
  CUdeviceptr address = 0;
  RETURN_IF_ERROR(cu.mem_alloc_pitch(&address, pitch, width, height, kPitchElement_bytes));
  *pointer = pointer_to(address);
  return cudaSuccess;
}

RUNTIME_API cudaMalloc3D(cudaPitchedPtr* pitched, cudaExtent extent) {
  if (!pitched) return record(cudaErrorInvalidValue);
  size_t rows = 0;
  if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) {
    return record(cudaErrorMemoryAllocation);
  }
  cudaPitchedPtr made{nullptr, 0, extent.width, extent.height};
  if (cudaError_t error = cudaMallocPitch(&made.ptr, &made.pitch, extent.width, rows)) return error;
  *pitched = made;
  return cudaSuccess;
}

RUNTIME_API cudaHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  WITH_CONTEXT();
  if (!pointer) return record(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  return record(cu.mem_host_alloc(pointer, bytes, flags));
}

RUNTIME_API cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, 0);
}

RUNTIME_API cudaFreeHost(void* pointer) {
  WITH_CONTEXT();
  return pointer ? record(cu.mem_free_host(pointer)) : cudaSuccess;
}

RUNTIME_API cudaHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  WITH_CONTEXT();
  return record(cu.mem_host_register(pointer, bytes, flags));
}

RUNTIME_API cudaHostUnregister(void* pointer) {
  WITH_CONTEXT();
  return record(cu.mem_host_unregister(pointer));
}

RUNTIME_API cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
  WITH_CONTEXT();
  if (!device) return record(cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  RETURN_IF_ERROR(cu.mem_host_get_device_pointer(&address, host, flags));
  *device = pointer_to(address);
  return cudaSuccess;
}

RUNTIME_API cudaHostGetFlags(unsigned int* flags, void* host) {
  WITH_CONTEXT();
  return record(cu.mem_host_get_flags(flags, host));
}

RUNTIME_API cudaMemGetInfo(size_t* free, size_t* total) {
  WITH_CONTEXT();
  return record(cu.mem_get_info(free, total));
}

// Memory that CUDA does not know is an answer, not an error.
RUNTIME_API cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  WITH_CONTEXT();
  if (!out) return record(cudaErrorInvalidValue);
  CUmemorytype type = {};
  CUdeviceptr device_pointer = 0;
  void* host_pointer = nullptr;
  int managed = 0, ordinal = 0;
  CUpointer_attribute wanted[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
      CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &device_pointer, &host_pointer, &managed, &ordinal};
  cudaPointerAttributes found{};
  found.device = CU_DEVICE_INVALID;
  if (pointer) {
    RETURN_IF_ERROR(cu.pointer_get_attributes(5, wanted, values, address_of(pointer)));
  }
  if (static_cast<int>(type) == 0) {
    found.type = cudaMemoryTypeUnregistered;
    found.hostPointer = const_cast<void*>(pointer);
  } else {
    found.type = managed                        ? cudaMemoryTypeManaged
                 : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                                : cudaMemoryTypeHost;
    found.device = ordinal;
    found.devicePointer = pointer_to(device_pointer);
    found.hostPointer = host_pointer;
  }
  *out = found;
  return cudaSuccess;
}
