// Managed memory: allocated, prefetched, advised about.
#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

RUNTIME_API cudaMallocManaged(void** pointer, size_t bytes, unsigned int flags) {
  WITH_CONTEXT();
  if (!pointer) return record(cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  RETURN_IF_ERROR(cu.mem_alloc_managed(&address, bytes, flags));
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

FORWARD(cudaMemPrefetchAsync, mem_prefetch_async_v2,
        (const void* pointer, size_t bytes, CUmemLocation location, unsigned int flags,
         cudaStream_t stream),
        (reinterpret_cast<CUdeviceptr>(pointer), bytes, location, flags, stream))
FORWARD(cudaMemPrefetchBatchAsync, mem_prefetch_batch_async,
        (void** pointers, size_t* bytes, size_t count, CUmemLocation* locations, size_t* first,
         size_t location_count, unsigned long long flags, cudaStream_t stream),
        (reinterpret_cast<CUdeviceptr*>(pointers), bytes, count, locations, first, location_count,
         flags, stream))
FORWARD(cudaMemDiscardBatchAsync, mem_discard_batch_async,
        (void** pointers, size_t* bytes, size_t count, unsigned long long flags,
         cudaStream_t stream),
        (reinterpret_cast<CUdeviceptr*>(pointers), bytes, count, flags, stream))
FORWARD(cudaMemDiscardAndPrefetchBatchAsync, mem_discard_and_prefetch_batch_async,
        (void** pointers, size_t* bytes, size_t count, CUmemLocation* locations, size_t* first,
         size_t location_count, unsigned long long flags, cudaStream_t stream),
        (reinterpret_cast<CUdeviceptr*>(pointers), bytes, count, locations, first, location_count,
         flags, stream))
FORWARD(cudaMemAdvise, mem_advise_v2,
        (const void* pointer, size_t bytes, CUmem_advise advice, CUmemLocation location),
        (reinterpret_cast<CUdeviceptr>(pointer), bytes, advice, location))
FORWARD(cudaMemRangeGetAttribute, mem_range_get_attribute,
        (void* data, size_t data_bytes, CUmem_range_attribute attribute, const void* pointer,
         size_t bytes),
        (data, data_bytes, attribute, reinterpret_cast<CUdeviceptr>(pointer), bytes))
FORWARD(cudaMemRangeGetAttributes, mem_range_get_attributes,
        (void** data, size_t* data_bytes, CUmem_range_attribute* attributes, size_t count,
         const void* pointer, size_t bytes),
        (data, data_bytes, attributes, count, reinterpret_cast<CUdeviceptr>(pointer), bytes))
FORWARD(cudaStreamAttachMemAsync, stream_attach_mem_async,
        (cudaStream_t stream, void* pointer, size_t bytes, unsigned int flags),
        (stream, reinterpret_cast<CUdeviceptr>(pointer), bytes, flags))
