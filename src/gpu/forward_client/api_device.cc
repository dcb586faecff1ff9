// Initialisation, versions, errors and the device, from what the executor told at the start.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gpu/forward_client/api.h"

using namespace lambent::forward_client;

namespace {

struct ErrorText {
  CUresult code;
  const char *name, *text;
};
constexpr ErrorText kErrors[] = {
#define DRIVER_RESULT(name, value, description) {name, #name, description},
#include "gpu/cuda_abi/driver_results.inc"
#undef DRIVER_RESULT
};

const ErrorText* find_error(CUresult code) {
  for (const ErrorText& each : kErrors) {
    if (each.code == code) return &each;
  }
  return nullptr;
}

CUresult check_device(CUdevice device) {
  const CUresult state = connection_state();
  if (state == CUDA_ERROR_NOT_INITIALIZED) return state;
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

int attribute(CUdevice_attribute which) {
  const int value = device().attributes[which];
  return value == lambent::forward_ring::kNoAttribute ? 0 : value;
}

}  // namespace

CUresult cuInit(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return connect_once();
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The driver answers this without being initialised; before that, we know only our own.
  *version =
      connection_state() == CUDA_ERROR_NOT_INITIALIZED ? CUDA_VERSION : device().driver_version;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* found = find_error(error);
  *name = found == nullptr ? nullptr : found->name;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* found = find_error(error);
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (connection_state() == CUDA_ERROR_NOT_INITIALIZED) return CUDA_ERROR_NOT_INITIALIZED;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  if (connection_state() == CUDA_ERROR_NOT_INITIALIZED) return CUDA_ERROR_NOT_INITIALIZED;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device_number) {
  if (const CUresult result = check_device(device_number)) return result;
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, static_cast<size_t>(length), "%s", device().name);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device_number) {
  if (const CUresult result = check_device(device_number)) return result;
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(uuid->bytes, device().uuid, sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device_number) {
  return cuDeviceGetUuid_v2(uuid, device_number);
}

// What the client may hold: to it, that is all there is.
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device_number) {
  if (const CUresult result = check_device(device_number)) return result;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = device().memory_bytes;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device_number) {
  if (const CUresult result = check_device(device_number)) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto number = static_cast<uint32_t>(which);
  if (number >= device().attribute_count) return CUDA_ERROR_INVALID_VALUE;
  if (device().attributes[number] == lambent::forward_ring::kNoAttribute) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *value = device().attributes[number];
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device_number) {
  if (const CUresult result = check_device(device_number)) return result;
  if (id == nullptr || length <= static_cast<int>(std::strlen(device().bus_id))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::snprintf(id, static_cast<size_t>(length), "%s", device().bus_id);
  return CUDA_SUCCESS;
}

// With or without the domain and the function, as the driver takes it.
CUresult cuDeviceGetByPCIBusId(CUdevice* device_number, const char* id) {
  if (connection_state() == CUDA_ERROR_NOT_INITIALIZED) return CUDA_ERROR_NOT_INITIALIZED;
  if (device_number == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned ours[4] = {}, asked[4] = {};
  const auto parse = [](const char* text, unsigned* parts) {
    if (std::sscanf(text, "%x:%x:%x.%x", parts, parts + 1, parts + 2, parts + 3) >= 3) return true;
    parts[0] = parts[3] = 0;
    return std::sscanf(text, "%x:%x.%x", parts + 1, parts + 2, parts + 3) >= 2;
  };
  if (!parse(id, asked)) return CUDA_ERROR_INVALID_VALUE;
  if (!parse(device().bus_id, ours) || std::memcmp(ours, asked, sizeof(ours)) != 0) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *device_number = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device_number) {
  if (const CUresult result = check_device(device_number)) return result;
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  *minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device_number) {
  if (const CUresult result = check_device(device_number)) return result;
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUdevprop& p = *properties;
  p.maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  p.maxThreadsDim[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  p.maxThreadsDim[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  p.maxThreadsDim[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  p.maxGridSize[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  p.maxGridSize[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  p.maxGridSize[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  p.sharedMemPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  p.totalConstantMemory = attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  p.SIMDWidth = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  p.memPitch = attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  p.regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  p.clockRate = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  p.textureAlign = attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device_number, CUdevice peer) {
  if (const CUresult result = check_device(device_number)) return result;
  if (const CUresult result = check_device(peer)) return result;
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = 0;  // it is no peer of its own
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType,
                                        CUdevice device_number) {
  if (const CUresult result = check_device(device_number)) return result;
  if (supported == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *supported = 0;
  return CUDA_SUCCESS;
}

CUresult cuProfilerStart(void) { return require_context(); }
CUresult cuProfilerStop(void) { return require_context(); }
