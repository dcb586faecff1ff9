// Questions about addresses: what they belong to, and how it may be used.
#include <algorithm>
#include <cstring>

#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

// What the driver knows about one address; `allocation` is empty where nothing is mapped.
struct Pointer {
  uintptr_t address;
  std::optional<Allocation> allocation;
  AddressRange range{};  // that the address could be mapped in

  Pointer(const Process& process, uintptr_t address)
      : address(address), allocation(process.memory.find(address, 1)) {
    if (allocation) range = {allocation->base, allocation->bytes};
    bool reserved = !allocation || allocation->kind == MemoryKind::kMapped;
    auto reservation = reserved ? process.virtual_memory.reservation_of(address) : std::nullopt;
    if (reservation) range = *reservation;
  }
  bool known() const { return range.bytes != 0; }
};

// Answers one attribute into `data`; host addresses that the driver does not know have none.
CUresult pointer_attribute(const Process& process, const Pointer& pointer,
                           CUpointer_attribute attribute, void* data) {
  auto put = [data](auto value) {
    std::memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
  };
  switch (attribute) {  // these are told of reserved addresses too
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(static_cast<CUdeviceptr>(pointer.range.base));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(pointer.range.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put(static_cast<int>(pointer.allocation.has_value()));
    default:
      if (!pointer.allocation) return CUDA_ERROR_INVALID_VALUE;
  }
  const Allocation& allocation = *pointer.allocation;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(allocation.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(static_cast<unsigned>(allocation.on_device() ? CU_MEMORYTYPE_DEVICE
                                                              : CU_MEMORYTYPE_HOST));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(static_cast<CUdeviceptr>(pointer.address));
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return allocation.on_device() && allocation.kind != MemoryKind::kManaged
                 ? CUDA_ERROR_INVALID_VALUE
                 : put(pointer.address);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put(static_cast<unsigned long long>(allocation.id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(static_cast<int>(allocation.kind == MemoryKind::kManaged));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put(static_cast<int>(allocation.kind == MemoryKind::kDevice));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return put(0);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: {
      bool made_for_it =
          allocation.kind == MemoryKind::kMapped || allocation.kind == MemoryKind::kPool;
      return put(static_cast<unsigned long long>(made_for_it ? allocation.flags : 0));
    }
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(process.pools.pool_of(pointer.address));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(process.ordinal_of(allocation.device));  // the host's: CU_DEVICE_CPU
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put(static_cast<int>(allocation.access));
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// What the question about many attributes answers where the one about a single attribute fails.
CUresult put_nothing(CUpointer_attribute attribute, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      std::memset(data, 0, 8);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: {
      int none = CU_DEVICE_INVALID;
      std::memcpy(data, &none, sizeof none);
      return CUDA_SUCCESS;
    }
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      std::memset(data, 0, 4);
      return CUDA_SUCCESS;
  }
}

}  // namespace

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  WITH_CONTEXT();
  auto allocation = process->memory.find(address, 1);
  if (!allocation || !allocation->on_device()) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = allocation->base;
  if (bytes) *bytes = allocation->bytes;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  WITH_PROCESS();
  Pointer pointer(*process, address);
  if (!data || !pointer.known()) return CUDA_ERROR_INVALID_VALUE;
  return pointer_attribute(*process, pointer, attribute, data);
}

// Unlike the single question this one answers zero for an unknown address.
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  WITH_PROCESS();
  if (!attributes || !data) return CUDA_ERROR_INVALID_VALUE;
  Pointer pointer(*process, address);
  for (unsigned i = 0; i < count; i++) {
    if (!data[i]) return CUDA_ERROR_INVALID_VALUE;
    bool answered = pointer.known() &&
                    pointer_attribute(*process, pointer, attributes[i], data[i]) == CUDA_SUCCESS;
    if (answered) continue;
    if (CUresult result = put_nothing(attributes[i], data[i])) return result;
  }
  return CUDA_SUCCESS;
}
