// Initialisation, devices and error texts.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_node/pci_bus.h"

using namespace lambent::emulated_cuda;

namespace {

struct ResultName {
  int code;
  const char* name;
  const char* description;
};
const ResultName kResults[] = {
#define DRIVER_RESULT(name, value, description) {value, #name, description},
#include "gpu/cuda_abi/driver_results.inc"
#undef DRIVER_RESULT
};

const ResultName* find_result(CUresult code) {
  for (const ResultName& result : kResults) {
    if (result.code == static_cast<int>(code)) return &result;
  }
  return nullptr;
}

// Attributes that are the same for every emulated device: what the hardware family has and the
// emulator keeps to, and 0 for what it does not do.
int common_attribute(CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 0x7FFFFFFF;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return 32;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
      return 2;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:  // POSIX descriptors
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      return 1;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      return -1;
    default:
      return 0;
  }
}

int attribute_of(const DeviceSpec& spec, int device, CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return spec.shared_bytes_per_block;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return spec.shared_bytes_per_block_optin;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return spec.shared_bytes_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return std::max(0, spec.shared_bytes_per_multiprocessor - spec.shared_bytes_per_block_optin);
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return spec.registers_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return spec.clock_khz;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return spec.multiprocessors;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
      return spec.integrated;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return device + 1;
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
      return device;  // each has its own board
    case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT:
      return spec.compute_major >= 9 ? 4 : 1;  // hints: nothing here depends on them
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return spec.memory_clock_khz;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return spec.memory_bus_bits;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return spec.l2_bytes;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return spec.threads_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return spec.blocks_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return spec.compute_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return spec.compute_minor;
    default:
      return common_attribute(attribute);
  }
}

bool known_attribute(CUdevice_attribute attribute) {
  switch (attribute) {
#define DEVICE_ATTRIBUTE(name, value) case CU_DEVICE_ATTRIBUTE_##name:
#include "gpu/cuda_abi/device_attributes.inc"
#undef DEVICE_ATTRIBUTE
    return true;
  }
  return false;
}

}  // namespace

CUresult cuInit(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return Process::initialise();
}

CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char** name) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  const ResultName* result = find_result(code);
  *name = result ? result->name : nullptr;
  return result ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  const ResultName* result = find_result(code);
  *text = result ? result->description : nullptr;
  return result ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int* count) {
  WITH_PROCESS();
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(process->visible.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  WITH_PROCESS();
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  int index;
  if (CUresult result = process->device_of(ordinal, &index)) return result;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  WITH_PROCESS();
  int index;
  if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(device, &index)) return result;
  std::snprintf(name, static_cast<size_t>(length), "%s", process->spec(index).name);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  WITH_PROCESS();
  int index;
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(device, &index)) return result;
  process->node->device_uuid(index, uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  WITH_PROCESS();
  int index;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(device, &index)) return result;
  *bytes = process->spec(index).memory_bytes;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  WITH_PROCESS();
  int index;
  if (!value || !known_attribute(attribute)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(device, &index)) return result;
  *value = attribute_of(process->spec(index), index, attribute);
  int limit = mps_limit(process->mps, process->spec(index).multiprocessors);
  if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT && limit > 0) *value = limit;
  if (attribute == CU_DEVICE_ATTRIBUTE_MPS_ENABLED) *value = process->mps.active;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType type, CUdevice device) {
  WITH_PROCESS();
  int index;
  if (!supported || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(device, &index)) return result;
  *supported = process->mps.active;
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  CUresult result =
      cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  if (result) return result;
  return cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  WITH_PROCESS();
  int index;
  if (!properties) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(device, &index)) return result;
  const DeviceSpec& spec = process->spec(index);
  *properties = {1024,
                 {1024, 1024, 64},
                 {0x7FFFFFFF, 65535, 65535},
                 spec.shared_bytes_per_block,
                 65536,
                 32,
                 0x7FFFFFFF,
                 spec.registers_per_multiprocessor,
                 spec.clock_khz,
                 512};
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  WITH_PROCESS();
  int index;
  if (CUresult result = process->device_of(device, &index)) return result;
  std::string text = Node::pci_bus_id(index);
  if (!id || length <= static_cast<int>(text.size())) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(id, text.c_str(), text.size() + 1);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  WITH_PROCESS();
  if (!device || !id) return CUDA_ERROR_INVALID_VALUE;
  const auto wanted = device_at(id);
  if (!wanted) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < process->visible.size(); i++) {
    if (device_of_partition(process->visible[i]) != *wanted) continue;
    *device = static_cast<CUdevice>(i);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuProfilerStart(void) { return CUDA_SUCCESS; }
CUresult cuProfilerStop(void) { return CUDA_SUCCESS; }
