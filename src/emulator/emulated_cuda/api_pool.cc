// Memory in the order of streams, and the pools that it comes from.
#include <algorithm>
#include <cstring>

#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

CUresult allocate(Process& process, const std::shared_ptr<Context>& context,
                  const std::shared_ptr<Stream>& stream, CUmemoryPool pool, size_t bytes,
                  CUdeviceptr* address) {
  if (!address || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t taken = 0;
  CompletionPtr after;
  CUresult result = process.pools.allocate(pool, bytes, stream->id, context.get(), &taken, &after);
  if (result) return result;
  if (after) {  // another stream's memory until that is done
    auto end = std::make_shared<Event>(context.get(), CU_EVENT_DISABLE_TIMING);
    end->record(std::move(after), 0);
    if (CUresult waiting = enqueue(process, context, stream, EventWait{std::move(end)})) {
      return waiting;
    }
  }
  *address = taken;
  return CUDA_SUCCESS;
}

// The node's device that a location names; -1: the host.
CUresult device_at(const Process& process, const CUmemLocation& location, int* device) {
  *device = -1;
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return process.device_of(location.id, device);
    case CU_MEM_LOCATION_TYPE_HOST:
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult device_at(const Process& process, const CUmemLocation* location, CUmemAllocationType type,
                   int* device) {
  if (!location) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_MEM_ALLOCATION_TYPE_MANAGED) {
    log_refusal("cuMemGetMemPool(MANAGED)", "pools of managed memory are not emulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  return device_at(process, *location, device);
}

CUresult check(const Process& process, const CUmemPoolProps* properties, int* device) {
  if (!properties) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = device_at(process, &properties->location, properties->allocType, device)) {
    return result;
  }
  int types = properties->handleTypes;
  if (properties->win32SecurityAttributes || (types & ~0xF)) return CUDA_ERROR_INVALID_VALUE;
  if (types && properties->location.type == CU_MEM_LOCATION_TYPE_HOST) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((types & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) || properties->usage) {
    log_refusal("cuMemPoolCreate", "only POSIX descriptors, and no usage flags");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  bool clear = std::all_of(std::begin(properties->reserved), std::end(properties->reserved),
                           [](unsigned char byte) { return byte == 0; });
  return clear ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// The attribute that is a switch, or null.
bool* flag_of(Pool& pool, CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return &pool.follow_event_dependencies;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return &pool.allow_opportunistic;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return &pool.allow_internal_dependencies;
    default:
      return nullptr;
  }
}

// The attribute that is a number of bytes, or null.
uint64_t* bytes_of(Pool& pool, CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return &pool.release_threshold_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return &pool.usage.reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return &pool.usage.reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return &pool.usage.used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return &pool.usage.used_high;
    default:
      return nullptr;
  }
}

CUresult set_attribute(Pool& pool, CUmemPool_attribute attribute, const void* value) {
  if (bool* flag = flag_of(pool, attribute)) {
    int given;
    std::memcpy(&given, value, sizeof given);
    *flag = given != 0;
    return CUDA_SUCCESS;
  }
  uint64_t* bytes = bytes_of(pool, attribute);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  uint64_t given;
  std::memcpy(&given, value, sizeof given);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *bytes = given;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (given != 0) return CUDA_ERROR_INVALID_VALUE;
      *bytes = attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? pool.usage.used : pool.usage.reserved;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream handle) {
  WITH_STREAM(handle);
  if (stream->capturing) {
    return capture_allocation(*process, context, *stream, context->device, bytes, address);
  }
  CUmemoryPool pool = process->pools.current_of(context->device);
  return allocate(*process, context, stream, pool, bytes, address);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                 CUstream handle) {
  WITH_STREAM(handle);
  if (stream->capturing) {  // of the pool's device, but the graph's own
    int device = -1;
    CUresult result = process->pools.use(pool, [&](Pool& found) {
      device = found.device;
      return CUDA_SUCCESS;
    });
    if (result) return result;
    if (device < 0) {
      log_refusal("cuMemAllocFromPoolAsync", "graphs do not allocate memory of the host");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    return capture_allocation(*process, context, *stream, device, bytes, address);
  }
  return allocate(*process, context, stream, pool, bytes, address);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  WITH_STREAM(handle);
  if (stream->capturing || process->graph_memory.known(address)) {
    return enqueue(*process, context, stream, MemoryFree{address});
  }
  bool of_pool = process->pools.begin_free(address);
  if (!of_pool && !process->memory.retire(address)) return CUDA_ERROR_INVALID_VALUE;
  CompletionPtr end;
  CUresult result = enqueue(*process, context, stream, MemoryFree{address}, &end);
  if (of_pool) process->pools.end_free(address, stream->id, std::move(end));
  return result;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  WITH_PROCESS();
  int device;
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = check(*process, properties, &device)) return result;
  *pool = process->pools.create(*properties, device);
  return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  WITH_PROCESS();
  return process->pools.destroy(pool);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes) {
  WITH_PROCESS();
  return process->pools.use(handle, [&](Pool& pool) {
    pool.trim(keep_bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  WITH_PROCESS();
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  return process->pools.use(handle,
                            [&](Pool& pool) { return set_attribute(pool, attribute, value); });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  WITH_PROCESS();
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  return process->pools.use(handle, [&](Pool& pool) {
    if (const bool* flag = flag_of(pool, attribute)) {
      int answer = *flag;
      std::memcpy(value, &answer, sizeof answer);
      return CUDA_SUCCESS;
    }
    const uint64_t* bytes = bytes_of(pool, attribute);
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(value, bytes, sizeof *bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* wanted, size_t count) {
  WITH_PROCESS();
  if (!wanted || count == 0 || count > 2 * kMaxDevices) return CUDA_ERROR_INVALID_VALUE;
  return process->pools.use_access(handle, [&](int home, auto& access) {
    for (size_t i = 0; i < count; i++) {
      int device;
      if (CUresult result = device_at(*process, wanted[i].location, &device)) return result;
      CUmemAccess_flags flags = wanted[i].flags;
      bool writes = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      if (!writes && flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) return CUDA_ERROR_INVALID_VALUE;
      // Where it lives it can always be used.
      if (device == home && !writes) return CUDA_ERROR_INVALID_VALUE;
      if (device < 0 && home >= 0) return CUDA_ERROR_INVALID_VALUE;
      bool reachable = device == home || home < 0 || process->can_access_peer(device, home);
      if (!reachable) return CUDA_ERROR_INVALID_DEVICE;
      access[device < 0 ? kMaxPartitions : device] = static_cast<uint8_t>(flags);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle,
                            CUmemLocation* location) {
  WITH_PROCESS();
  int device;
  if (!flags || !location) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = device_at(*process, *location, &device)) return result;
  return process->pools.use_access(handle, [&](int, const auto& access) {
    *flags = static_cast<CUmemAccess_flags>(access[device < 0 ? kMaxPartitions : device]);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  WITH_PROCESS();
  int device;
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(ordinal, &device)) return result;
  *pool = process->pools.default_of(device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  WITH_PROCESS();
  int device;
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(ordinal, &device)) return result;
  *pool = process->pools.current_of(device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool pool) {
  WITH_PROCESS();
  int device;
  if (CUresult result = process->device_of(ordinal, &device)) return result;
  return process->pools.set_current(device, pool);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                CUmemAllocationType type) {
  WITH_PROCESS();
  int device;
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = device_at(*process, location, type, &device)) return result;
  *pool = process->pools.default_of(device);
  return CUDA_SUCCESS;
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  WITH_PROCESS();
  int device;
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = device_at(*process, location, type, &device)) return result;
  *pool = process->pools.current_of(device);
  return CUDA_SUCCESS;
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  WITH_PROCESS();
  int device;
  if (CUresult result = device_at(*process, location, type, &device)) return result;
  return process->pools.set_current(device, pool);
}

CUresult cuMemPoolExportToShareableHandle(void* out, CUmemoryPool pool,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  WITH_PROCESS();
  if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return process->pools.export_pool(pool, static_cast<int*>(out));
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* handle,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  WITH_PROCESS();
  if (!pool || flags) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return process->pools.import_pool(static_cast<int>(reinterpret_cast<intptr_t>(handle)), pool);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr address) {
  WITH_PROCESS();
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  ExportedPointer exported;
  if (CUresult result = process->pools.export_pointer(address, &exported)) return result;
  static_assert(sizeof exported <= sizeof *data);
  std::memset(data, 0, sizeof *data);
  std::memcpy(data, &exported, sizeof exported);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr* address, CUmemoryPool pool,
                                CUmemPoolPtrExportData* data) {
  WITH_CONTEXT();
  if (!address || !data) return CUDA_ERROR_INVALID_VALUE;
  ExportedPointer exported;
  std::memcpy(&exported, data, sizeof exported);
  uintptr_t mapped = 0;
  CUresult result = process->pools.import_pointer(pool, exported, context.get(), &mapped);
  if (result == CUDA_SUCCESS) *address = mapped;
  return result;
}
