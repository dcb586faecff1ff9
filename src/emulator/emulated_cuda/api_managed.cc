// Managed memory: allocation, prefetch, discard, advice, and questions about ranges.
#include <algorithm>
#include <cstring>
#include <vector>

#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

// A place from a location or, in the first ABI, from a device; -1: the host.
CUresult place_at(const Process& process, const CUmemLocation& location, int* place) {
  int device;
  *place = kHostPlace;
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      *place = location.id;
      return process.device_of(location.id, &device);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUmemLocation location_of(CUdevice device) {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

CUresult prefetch(CUdeviceptr address, size_t bytes, CUmemLocation location, CUstream handle) {
  WITH_STREAM(handle);
  int place;
  if (bytes == 0 || !process->managed.covers(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = place_at(*process, location, &place)) return result;
  return enqueue(*process, context, stream, MemoryMoves{{{address, bytes, false, true, place}}});
}

// The location of each of `count` ranges, given by the index of the first that it is for.
CUresult spread_places(const Process& process, const CUmemLocation* locations,
                       const size_t* indices, size_t given, std::vector<MemoryMove>& moves) {
  size_t count = moves.size();
  if (!locations || !indices || given == 0 || given > count || indices[0] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < given; i++) {
    size_t end = i + 1 < given ? indices[i + 1] : count;
    if (indices[i] >= end || end > count) return CUDA_ERROR_INVALID_VALUE;
    int place;
    if (CUresult result = place_at(process, locations[i], &place)) return result;
    for (size_t at = indices[i]; at < end; at++) moves[at].place = place;
  }
  return CUDA_SUCCESS;
}

struct Batch {
  CUdeviceptr* addresses;
  size_t* sizes;
  size_t count;
  bool discard;
  CUmemLocation* locations;  // null: no prefetch
  size_t* location_indices;
  size_t location_count;
};

CUresult move_batch(const Batch& batch, bool prefetch, unsigned long long flags, CUstream handle) {
  // The legacy stream has no part in batches.
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
  WITH_STREAM(handle);
  if (flags || !batch.addresses || !batch.sizes || batch.count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  MemoryMoves moves;
  for (size_t i = 0; i < batch.count; i++) {
    if (batch.sizes[i] == 0 || !process->managed.covers(batch.addresses[i], batch.sizes[i])) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    moves.moves.push_back(
        {batch.addresses[i], batch.sizes[i], batch.discard, prefetch, kHostPlace});
  }
  if (prefetch) {
    if (CUresult result = spread_places(*process, batch.locations, batch.location_indices,
                                        batch.location_count, moves.moves)) {
      return result;
    }
  }
  return enqueue(*process, context, stream, std::move(moves));
}

CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location) {
  WITH_PROCESS();
  if (bytes == 0 || !process->managed.covers(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  int place = kHostPlace;
  bool needs_place = advice != CU_MEM_ADVISE_SET_READ_MOSTLY &&
                     advice != CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
                     advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
  if (needs_place) {
    if (CUresult result = place_at(*process, location, &place)) return result;
  }
  uint32_t bit = place == kHostPlace ? kHostBit : uint32_t{1} << place;
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      process->managed.advise(address, bytes, [&](Advice& a) {
        a.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
      });
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      process->managed.advise(address, bytes, [&](Advice& a) { a.preferred = place; });
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      process->managed.advise(address, bytes, [&](Advice& a) { a.preferred = kNoPlace; });
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      process->managed.advise(address, bytes, [&](Advice& a) { a.accessed_by |= bit; });
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      process->managed.advise(address, bytes, [&](Advice& a) { a.accessed_by &= ~bit; });
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// A place as the three kinds of question about one want it.
int as_device(int place) {
  return place == kNoPlace ? CU_DEVICE_INVALID : place == kHostPlace ? CU_DEVICE_CPU : place;
}
int as_type(int place) {
  return place == kNoPlace     ? CU_MEM_LOCATION_TYPE_INVALID
         : place == kHostPlace ? CU_MEM_LOCATION_TYPE_HOST
                               : CU_MEM_LOCATION_TYPE_DEVICE;
}

CUresult range_attribute(const Advice& advice, CUmem_range_attribute attribute, void* data,
                         size_t bytes) {
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
    if (bytes == 0 || bytes % sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<int> devices;
    for (int device = 0; device < kMostPlaces - 1; device++) {
      if (advice.accessed_by >> device & 1) devices.push_back(device);
    }
    if (advice.accessed_by & kHostBit) devices.push_back(CU_DEVICE_CPU);
    devices.resize(bytes / sizeof(int), CU_DEVICE_INVALID);
    std::memcpy(data, devices.data(), bytes);
    return CUDA_SUCCESS;
  }
  int value;
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      value = advice.read_mostly;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      value = as_device(advice.preferred);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      value = as_device(advice.prefetched);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      value = as_type(advice.preferred);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      value = as_type(advice.prefetched);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      value = std::max(0, advice.preferred);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      value = std::max(0, advice.prefetched);
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (bytes != sizeof value) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned int flags) {
  WITH_CONTEXT();
  if (!address || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (bytes > SIZE_MAX / 2) return CUDA_ERROR_OUT_OF_MEMORY;
  if (CUresult result = process->managed.allocate(*context, bytes, flags, address)) return result;
  process->node->spend(process->spec(context->device).allocation_ns);
  return CUDA_SUCCESS;
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
  return prefetch(address, bytes, location_of(device), stream);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location,
                               unsigned int flags, CUstream stream) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  return prefetch(address, bytes, location, stream);
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                 CUmemLocation* locations, size_t* indices, size_t location_count,
                                 unsigned long long flags, CUstream stream) {
  return move_batch({addresses, sizes, count, false, locations, indices, location_count}, true,
                    flags, stream);
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                unsigned long long flags, CUstream stream) {
  return move_batch({addresses, sizes, count, true, nullptr, nullptr, 0}, false, flags, stream);
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                           CUmemLocation* locations, size_t* indices,
                                           size_t location_count, unsigned long long flags,
                                           CUstream stream) {
  return move_batch({addresses, sizes, count, true, locations, indices, location_count}, true,
                    flags, stream);
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device) {
  return advise(address, bytes, advice, location_of(device));
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                        CUmemLocation location) {
  return advise(address, bytes, advice, location);
}

CUresult cuMemRangeGetAttribute(void* data, size_t data_bytes, CUmem_range_attribute attribute,
                                CUdeviceptr address, size_t bytes) {
  WITH_PROCESS();
  if (bytes == 0 || !process->managed.covers(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return range_attribute(process->managed.advice(address, bytes), attribute, data, data_bytes);
}

CUresult cuMemRangeGetAttributes(void** data, size_t* data_bytes, CUmem_range_attribute* attributes,
                                 size_t count, CUdeviceptr address, size_t bytes) {
  WITH_PROCESS();
  if (!data || !data_bytes || !attributes || count == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0 || !process->managed.covers(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  Advice advice = process->managed.advice(address, bytes);
  for (size_t i = 0; i < count; i++) {
    if (CUresult result = range_attribute(advice, attributes[i], data[i], data_bytes[i])) {
      return result;
    }
  }
  return CUDA_SUCCESS;
}

// Every device of the emulator can use managed memory at any time: to which stream it is attached
// changes nothing but must be said rightly.
CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t bytes,
                                unsigned int flags) {
  WITH_STREAM(handle);
  bool known =
      flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE;
  bool legacy = handle == nullptr || handle == CU_STREAM_LEGACY;
  if (!known || (legacy && flags == CU_MEM_ATTACH_SINGLE)) return CUDA_ERROR_INVALID_VALUE;
  auto allocation = process->memory.find(address, std::max<size_t>(1, bytes));
  if (!allocation || allocation->kind != MemoryKind::kManaged) return CUDA_ERROR_INVALID_VALUE;
  bool whole = bytes == 0 || (address == allocation->base && bytes == allocation->bytes);
  if (!whole) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(*process, context, stream, Empty{});
}
