// Device memory and page-locked host memory: allocation and release.
#include <algorithm>
#include <cmath>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/memory_users.h"

using namespace lambent::emulated_cuda;

namespace {

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) & ~(unit - 1); }

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
  if (CUresult result = refuse_unsafe_call(*process)) return result;
  return process->allocate_device(*context, bytes, address);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                            unsigned int element) {
  WITH_CONTEXT();
  if (!pitch || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  if (width > process->spec(context->device).memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t row = round_up(width, 512);
  if (height > process->spec(context->device).memory_bytes / row) return CUDA_ERROR_OUT_OF_MEMORY;
  if (CUresult result = process->allocate_device(*context, row * height, address)) return result;
  *pitch = row;
  return CUDA_SUCCESS;
}

// As on a GPU, work that may still use the memory ends first.
CUresult cuMemFree_v2(CUdeviceptr address) {
  WITH_CONTEXT();
  if (address == 0) return CUDA_SUCCESS;
  if (CUresult result = refuse_unsafe_call(*process)) return result;
  synchronize_users(*process, *context, address);
  process->pools.observe();
  if (process->pools.begin_free(address)) {
    process->pools.end_free(address, 0, nullptr);
    process->pools.observe();
    return CUDA_SUCCESS;
  }
  bool freed = process->managed.free(address) || process->free_device_memory(address);
  return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
  synchronize_users(*process, *context, reinterpret_cast<uintptr_t>(address));
  auto freed =
      process->memory.release(reinterpret_cast<uintptr_t>(address), MemoryKind::kHostAllocated);
  return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned int flags) {
  WITH_CONTEXT();
  if (!address || bytes == 0 || flags > 0xF) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(address)) return CUDA_ERROR_INVALID_VALUE;
  if (flags & CU_MEMHOSTREGISTER_IOMEMORY) return CUDA_ERROR_NOT_SUPPORTED;
  bool added =
      process->memory.add(reinterpret_cast<uintptr_t>(address), bytes, MemoryKind::kHostRegistered,
                          flags, context->device, context.get());
  return added ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostUnregister(void* address) {
  WITH_CONTEXT();
  synchronize_users(*process, *context, reinterpret_cast<uintptr_t>(address));
  auto freed =
      process->memory.release(reinterpret_cast<uintptr_t>(address), MemoryKind::kHostRegistered);
  return freed ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* address, unsigned int flags) {
  WITH_CONTEXT();
  if (!device || flags) return CUDA_ERROR_INVALID_VALUE;
  auto allocation = process->memory.find(reinterpret_cast<uintptr_t>(address), 1);
  if (!allocation || allocation->on_device()) return CUDA_ERROR_INVALID_VALUE;
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
