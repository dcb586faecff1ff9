// Device memory and page-locked host memory: allocation, release, questions about addresses.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) & ~(unit - 1); }

CUresult allocate(Process& process, Context& context, size_t bytes, CUdeviceptr* address) {
  if (!address || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > process.spec(context.device).memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t counted = round_up(bytes, process.spec(context.device).allocation_granularity);
  if (!process.count_bytes(context.device, counted)) return CUDA_ERROR_OUT_OF_MEMORY;
  double scale = process.settings.model_mode ? process.node->spec().memory_scale : 1.0;
  size_t backing = static_cast<size_t>(std::ceil(bytes / std::max(1.0, scale)));
  auto allocation = process.memory.allocate(bytes, counted, backing, context.device, &context);
  if (!allocation) {
    process.uncount_bytes(context.device, counted);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  process.node->spend(process.spec(context.device).allocation_ns);
  *address = allocation->base;
  return CUDA_SUCCESS;
}

bool is_device(MemoryKind kind) {
  return kind == MemoryKind::kDevice || kind == MemoryKind::kModule;
}

// Answers one attribute into `data`; host addresses that the driver does not know have none.
CUresult pointer_attribute(const Process& process, const Allocation& allocation,
                           CUpointer_attribute attribute, uintptr_t address, void* data) {
  auto put = [data](auto value) { std::memcpy(data, &value, sizeof value); };
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      put(allocation.context);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      put(static_cast<unsigned>(is_device(allocation.kind) ? CU_MEMORYTYPE_DEVICE
                                                           : CU_MEMORYTYPE_HOST));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      put(static_cast<CUdeviceptr>(address));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (is_device(allocation.kind)) return CUDA_ERROR_INVALID_VALUE;
      put(address);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      put(static_cast<unsigned long long>(allocation.id));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      put(0);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      put(static_cast<unsigned long long>(0));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: {
      auto it = std::find(process.visible.begin(), process.visible.end(), allocation.device);
      put(static_cast<int>(it - process.visible.begin()));
      return CUDA_SUCCESS;
    }
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      put(static_cast<CUdeviceptr>(allocation.base));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      put(allocation.bytes);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      put(1);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      put(static_cast<int>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  WITH_CONTEXT();
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  Node::Guard guard(*process->node);
  guard.reap(true);
  uint64_t capacity = process->spec(context->device).memory_bytes;
  *total = capacity;
  *free = capacity - std::min(capacity, guard.used_bytes(context->device));
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  WITH_CONTEXT();
  return allocate(*process, *context, bytes, address);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                            unsigned int element) {
  WITH_CONTEXT();
  if (!pitch || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  if (width > process->spec(context->device).memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t row = round_up(width, 512);
  if (height > process->spec(context->device).memory_bytes / row) return CUDA_ERROR_OUT_OF_MEMORY;
  if (CUresult result = allocate(*process, *context, row * height, address)) return result;
  *pitch = row;
  return CUDA_SUCCESS;
}

// As on a GPU, work that may still use the memory ends first.
CUresult cuMemFree_v2(CUdeviceptr address) {
  WITH_CONTEXT();
  if (address == 0) return CUDA_SUCCESS;
  synchronize(*context);
  return process->free_device_memory(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream handle) {
  WITH_STREAM(handle);
  return allocate(*process, *context, bytes, address);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  WITH_STREAM(handle);
  auto allocation = process->memory.find(address, 1);
  if (!allocation || allocation->base != address || allocation->kind != MemoryKind::kDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return enqueue(*process, context, stream, MemoryFree{address});
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  WITH_CONTEXT();
  auto allocation = process->memory.find(address, 1);
  if (!allocation || !is_device(allocation->kind)) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = allocation->base;
  if (bytes) *bytes = allocation->bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned int flags) {
  WITH_CONTEXT();
  constexpr unsigned kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (!address || bytes == 0 || (flags & ~kKnown)) return CUDA_ERROR_INVALID_VALUE;
  auto allocation = process->memory.allocate_host(bytes, flags, context->device, context.get());
  if (!allocation) return CUDA_ERROR_OUT_OF_MEMORY;
  process->node->spend(process->spec(context->device).allocation_ns);
  *address = reinterpret_cast<void*>(allocation->base);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void** address, size_t bytes) {
  return cuMemHostAlloc(address, bytes, 0);
}

CUresult cuMemFreeHost(void* address) {
  WITH_CONTEXT();
  synchronize(*context);
  auto freed =
      process->memory.release(reinterpret_cast<uintptr_t>(address), MemoryKind::kHostAllocated);
  return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned int flags) {
  WITH_CONTEXT();
  if (!address || bytes == 0 || flags > 0xF) return CUDA_ERROR_INVALID_VALUE;
  if (flags & CU_MEMHOSTREGISTER_IOMEMORY) return CUDA_ERROR_NOT_SUPPORTED;
  bool added =
      process->memory.add(reinterpret_cast<uintptr_t>(address), bytes, MemoryKind::kHostRegistered,
                          flags, context->device, context.get());
  return added ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostUnregister(void* address) {
  WITH_CONTEXT();
  synchronize(*context);
  auto freed =
      process->memory.release(reinterpret_cast<uintptr_t>(address), MemoryKind::kHostRegistered);
  return freed ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* address, unsigned int flags) {
  WITH_CONTEXT();
  if (!device || flags) return CUDA_ERROR_INVALID_VALUE;
  auto allocation = process->memory.find(reinterpret_cast<uintptr_t>(address), 1);
  if (!allocation || is_device(allocation->kind)) return CUDA_ERROR_INVALID_VALUE;
  *device = reinterpret_cast<CUdeviceptr>(address);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* address) {
  WITH_CONTEXT();
  auto allocation = process->memory.find(reinterpret_cast<uintptr_t>(address), 1);
  if (!flags || !allocation || allocation->kind != MemoryKind::kHostAllocated) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = allocation->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  WITH_PROCESS();
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  auto allocation = process->memory.find(address, 1);
  if (!allocation) return CUDA_ERROR_INVALID_VALUE;
  return pointer_attribute(*process, *allocation, attribute, address, data);
}

// Unlike the single question this one answers zero for an unknown address.
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  WITH_PROCESS();
  if (!attributes || !data) return CUDA_ERROR_INVALID_VALUE;
  auto allocation = process->memory.find(address, 1);
  for (unsigned i = 0; i < count; i++) {
    if (allocation &&
        pointer_attribute(*process, *allocation, attributes[i], address, data[i]) == CUDA_SUCCESS) {
      continue;
    }
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_CONTEXT:
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        std::memset(data[i], 0, 8);
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: {
        int none = CU_DEVICE_INVALID;
        std::memcpy(data[i], &none, sizeof none);
        break;
      }
      case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        std::memset(data[i], 0, 4);
    }
  }
  return CUDA_SUCCESS;
}
