// Memory allocated and freed in stream order, and the pools that it comes from.
#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

RUNTIME_API cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  WITH_CONTEXT();
  if (!pointer) return record(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  CUdeviceptr address = 0;
  RETURN_IF_ERROR(cu.mem_alloc_async(&address, bytes, stream));
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

RUNTIME_API cudaFreeAsync(void* pointer, cudaStream_t stream) {
  WITH_CONTEXT();
  if (!pointer) return cudaSuccess;
  return record(cu.mem_free_async(reinterpret_cast<CUdeviceptr>(pointer), stream));
}

RUNTIME_API cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  WITH_CONTEXT();
  if (!pointer) return record(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  CUdeviceptr address = 0;
  RETURN_IF_ERROR(cu.mem_alloc_from_pool_async(&address, bytes, pool, stream));
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

FORWARD(cudaDeviceGetDefaultMemPool, device_get_default_mem_pool,
        (cudaMemPool_t * pool, int device), (pool, device))
FORWARD(cudaDeviceGetMemPool, device_get_mem_pool, (cudaMemPool_t * pool, int device),
        (pool, device))
FORWARD(cudaDeviceSetMemPool, device_set_mem_pool, (int device, cudaMemPool_t pool), (device, pool))
FORWARD(cudaMemPoolCreate, mem_pool_create,
        (cudaMemPool_t * pool, const CUmemPoolProps* properties), (pool, properties))
FORWARD(cudaMemPoolDestroy, mem_pool_destroy, (cudaMemPool_t pool), (pool))
FORWARD(cudaMemPoolTrimTo, mem_pool_trim_to, (cudaMemPool_t pool, size_t bytes), (pool, bytes))
FORWARD(cudaMemPoolSetAttribute, mem_pool_set_attribute,
        (cudaMemPool_t pool, CUmemPool_attribute attribute, void* value), (pool, attribute, value))
FORWARD(cudaMemPoolGetAttribute, mem_pool_get_attribute,
        (cudaMemPool_t pool, CUmemPool_attribute attribute, void* value), (pool, attribute, value))
FORWARD(cudaMemPoolSetAccess, mem_pool_set_access,
        (cudaMemPool_t pool, const CUmemAccessDesc* access, size_t count), (pool, access, count))
FORWARD(cudaMemPoolGetAccess, mem_pool_get_access,
        (CUmemAccess_flags * flags, cudaMemPool_t pool, CUmemLocation* location),
        (flags, pool, location))
FORWARD(cudaMemGetDefaultMemPool, mem_get_default_mem_pool,
        (cudaMemPool_t * pool, CUmemLocation* location, CUmemAllocationType type),
        (pool, location, type))
FORWARD(cudaMemGetMemPool, mem_get_mem_pool,
        (cudaMemPool_t * pool, CUmemLocation* location, CUmemAllocationType type),
        (pool, location, type))
FORWARD(cudaMemSetMemPool, mem_set_mem_pool,
        (CUmemLocation * location, CUmemAllocationType type, cudaMemPool_t pool),
        (location, type, pool))
FORWARD(cudaMemPoolExportToShareableHandle, mem_pool_export_to_shareable_handle,
        (void* handle, cudaMemPool_t pool, CUmemAllocationHandleType type, unsigned int flags),
        (handle, pool, type, flags))
FORWARD(cudaMemPoolImportFromShareableHandle, mem_pool_import_from_shareable_handle,
        (cudaMemPool_t * pool, void* handle, CUmemAllocationHandleType type, unsigned int flags),
        (pool, handle, type, flags))
FORWARD(cudaMemPoolExportPointer, mem_pool_export_pointer,
        (CUmemPoolPtrExportData * data, void* pointer),
        (data, reinterpret_cast<CUdeviceptr>(pointer)))

RUNTIME_API cudaMemPoolImportPointer(void** pointer, cudaMemPool_t pool,
                                     CUmemPoolPtrExportData* data) {
  WITH_CONTEXT();
  if (!pointer) return record(cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  RETURN_IF_ERROR(cu.mem_pool_import_pointer(&address, pool, data));
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}
