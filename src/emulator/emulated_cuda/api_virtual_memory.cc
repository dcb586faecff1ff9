// Physical memory, address reservations and the mapping of one into the other; physical memory as a
// descriptor for other processes.
#include <algorithm>
#include <cmath>
#include <vector>

#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

// From here on the model mode backs an allocation by less than it counts.
constexpr size_t kScaledBytes = size_t{8} << 20;

// What cuMemCreate can make; `device` is the node's, or -1 for host memory.
CUresult check(const Process& process, const CUmemAllocationProp* properties, int* device) {
  if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (properties->win32HandleMetaData) return CUDA_ERROR_INVALID_VALUE;
  int types = properties->requestedHandleTypes;
  if (types & ~0xF) return CUDA_ERROR_INVALID_VALUE;
  if (types & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    log_refusal("cuMemCreate(requestedHandleTypes)", "only POSIX descriptors can be exported");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (properties->allocFlags.usage) {
    log_refusal("cuMemCreate(usage)", "there are no sparse arrays and no decompression engine");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *device = -1;
  switch (properties->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return process.device_of(properties->location.id, device);
    case CU_MEM_LOCATION_TYPE_HOST:
      return types ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return properties->location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

void uncount(Process& process, const PhysicalMemory& memory) {
  if (memory.device() < 0) return;
  if (memory.shared.id == 0) {
    process.uncount_bytes(memory.device(), memory.bytes());
    return;
  }
  Node::Guard guard(*process.node);
  drop(guard->shared, memory.shared, process.row);
}

// From the process's own count to the one that all its holders share.
bool share_count(Process& process, PhysicalMemory& memory) {
  Node::Guard guard(*process.node);
  if (memory.device() < 0 || memory.shared.id != 0) return true;
  memory.shared = share(guard->shared, memory.device(), memory.bytes(), process.row);
  if (memory.shared.id == 0) return false;
  uint64_t& mine = guard->rows[process.row].bytes[memory.device()];
  mine -= std::min(mine, static_cast<uint64_t>(memory.bytes()));
  return true;
}

// What tells the memory of one node from another's.
uint64_t node_token(Process& process) {
  Node::Guard guard(*process.node);
  return static_cast<uint64_t>(guard->epoch_real_ns);
}

CUresult location_of(const Process& process, const CUmemLocation& location, int* index) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return process.device_of(location.id, index);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      *index = kHostLocation;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Work that may still use the memory ends first; a GPU would fault instead.
void synchronize_all(Process& process) {
  for (const auto& context : process.contexts.all()) synchronize(*context);
}

}  // namespace

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  WITH_PROCESS();
  if (!address || flags) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t base = 0;
  if (CUresult result = process->virtual_memory.reserve(bytes, alignment, hint, &base)) {
    return result;
  }
  *address = base;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  WITH_PROCESS();
  return process->virtual_memory.free(address, bytes);
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags option) {
  WITH_PROCESS();
  int device;
  if (!granularity || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (CUresult result = check(*process, properties, &device)) return result;
  *granularity = kMappingGranularityBytes;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  WITH_PROCESS();
  int device;
  if (!handle || flags || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = check(*process, properties, &device)) return result;
  if (bytes % kMappingGranularityBytes) return CUDA_ERROR_INVALID_VALUE;
  if (device >= 0 && !process->claim_bytes(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  double scale = process->settings.model_mode ? process->node->spec().memory_scale : 1.0;
  size_t backing_bytes = bytes;
  if (scale > 1 && bytes >= kScaledBytes) {
    size_t wanted = static_cast<size_t>(std::ceil(bytes / scale));
    backing_bytes = std::min(bytes, (wanted + 4095) & ~size_t{4095});
  }
  CUmemAllocationProp granted = *properties;
  granted.allocFlags.compressionType = 0;  // a hint that is not taken
  auto memory = PhysicalMemory::create(process->backing, bytes, backing_bytes, device, granted);
  if (!memory) {
    if (device >= 0) process->uncount_bytes(device, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  memory->on_gone = [process](const PhysicalMemory& gone) { uncount(*process, gone); };
  if (device >= 0) process->node->spend(process->spec(device).allocation_ns);
  *handle = process->virtual_memory.add(std::move(memory));
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  WITH_PROCESS();
  return process->virtual_memory.release(handle);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  WITH_PROCESS();
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  return process->virtual_memory.retain(reinterpret_cast<uintptr_t>(address), handle);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  WITH_PROCESS();
  auto memory = process->virtual_memory.find(handle);
  if (!properties || !memory) return CUDA_ERROR_INVALID_VALUE;
  *properties = memory->properties();
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  WITH_PROCESS();
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  return process->virtual_memory.map(address, bytes, offset, handle);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  WITH_PROCESS();
  if (!process->virtual_memory.is_mapped(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  synchronize_all(*process);
  return process->virtual_memory.unmap(address, bytes);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* wanted,
                        size_t count) {
  WITH_PROCESS();
  if (!wanted || count == 0 || count > 2 * kMaxDevices) return CUDA_ERROR_INVALID_VALUE;
  if (!process->virtual_memory.is_mapped(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  auto allocation = process->memory.find(address, bytes);
  if (!allocation) return CUDA_ERROR_INVALID_VALUE;
  std::vector<AccessChange> changes;
  bool lowered = false;
  for (size_t i = 0; i < count; i++) {
    AccessChange change{0, wanted[i].flags};
    if (CUresult result = location_of(*process, wanted[i].location, &change.location)) {
      return result;
    }
    if (change.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        change.flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        change.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    // The host has no way into a device's memory; another device has it if they are peers.
    bool own = change.location == allocation->device || allocation->device < 0;
    if (!own && change.location == kHostLocation) return CUDA_ERROR_INVALID_VALUE;
    if (!own && !process->can_access_peer(change.location, allocation->device)) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
    lowered = lowered || change.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    changes.push_back(change);
  }
  if (lowered && allocation->access != Access::kNone) synchronize_all(*process);
  return process->virtual_memory.set_access(address, bytes, changes);
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  WITH_PROCESS();
  int index;
  if (!flags || !location) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = location_of(*process, *location, &index)) return result;
  return process->virtual_memory.access(index, address, flags);
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  WITH_PROCESS();
  auto memory = process->virtual_memory.find(handle);
  if (!out || flags || !memory) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !memory->exportable()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!share_count(*process, *memory)) return CUDA_ERROR_OUT_OF_MEMORY;
  ExportedMemory exported{};
  exported.node = node_token(*process);
  exported.shared = memory->shared;
  int descriptor = memory->export_descriptor(exported);
  if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(out) = descriptor;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* descriptor,
                                        CUmemAllocationHandleType type) {
  WITH_PROCESS();
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  auto memory = PhysicalMemory::import(static_cast<int>(reinterpret_cast<intptr_t>(descriptor)));
  if (!memory) return CUDA_ERROR_INVALID_VALUE;
  ExportedMemory exported = memory->exported();
  if (exported.node != node_token(*process)) return CUDA_ERROR_NOT_SUPPORTED;
  if (auto known = process->virtual_memory.find_shared(exported.shared)) {
    *handle = process->virtual_memory.add(std::move(known));
    return CUDA_SUCCESS;
  }
  memory->locate({CU_MEM_LOCATION_TYPE_HOST_NUMA, 0});
  if (memory->device() >= 0) {
    const auto& visible = process->visible;
    auto seen = std::find(visible.begin(), visible.end(), memory->device());
    if (seen == visible.end()) return CUDA_ERROR_NOT_SUPPORTED;
    memory->locate({CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(seen - visible.begin())});
    bool held;
    {
      Node::Guard guard(*process->node);
      held = hold(guard->shared, exported.shared, process->row);
    }
    if (held) {
      memory->shared = exported.shared;
    } else {
      // All holders released it while the descriptor was under way: it is counted again, here.
      if (!process->claim_bytes(memory->device(), memory->bytes())) {
        return CUDA_ERROR_OUT_OF_MEMORY;
      }
    }
    memory->on_gone = [process](const PhysicalMemory& gone) { uncount(*process, gone); };
  }
  *handle = process->virtual_memory.add(std::move(memory));
  return CUDA_SUCCESS;
}
