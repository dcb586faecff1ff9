// The other names of the same functions, for a default stream of each thread, and cuGetProcAddress,
// which picks among them. Those of copies that wait are in api_copy.cc.
#include <cstring>

#include "gpu/forward_client/api.h"
#include "gpu/forward_client/files.h"

using namespace lambent::forward_client;

namespace {

CUstream per_thread(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

struct Version {
  const char* name;
  int version;
  const char* symbol;
  bool per_thread;
};
constexpr Version kVersions[] = {
#define DRIVER_VERSION(name, version, symbol, per_thread) {#name, version, #symbol, per_thread},
#include "gpu/cuda_abi/driver_versions.inc"
#undef DRIVER_VERSION
};

// The newest symbol of the name that the version knows; that of the per-thread form if one is asked
// for and there is one.
const char* choose(const char* name, int version, bool per_thread, bool* known) {
  const Version *plain = nullptr, *own = nullptr;
  *known = false;
  for (const Version& row : kVersions) {
    if (std::strcmp(row.name, name) != 0) continue;
    *known = true;
    if (row.version > version) continue;
    const Version*& best = row.per_thread ? own : plain;
    if (best == nullptr || row.version > best->version) best = &row;
  }
  if (per_thread && own != nullptr) return own->symbol;
  return plain == nullptr ? nullptr : plain->symbol;
}

}  // namespace

CUresult cuGetProcAddress_v2(const char* name, void** address, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || address == nullptr || flags > 3) return CUDA_ERROR_INVALID_VALUE;
  bool known = false;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const char* symbol = choose(name, version, per_thread, &known);
  *address = symbol == nullptr ? nullptr : own_symbol(symbol);
  const bool found = *address != nullptr;
  if (status != nullptr) {
    *status = found   ? CU_GET_PROC_ADDRESS_SUCCESS
              : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return found || status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char* name, void** address, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, address, version, flags, nullptr);
}

// Tables by which NVIDIA's own libraries reach into NVIDIA's own driver: there are none.
CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

VARIANT cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count) {
  return cuMemsetD8Async(to, value, count, CU_STREAM_PER_THREAD);
}
VARIANT cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t count) {
  return cuMemsetD16Async(to, value, count, CU_STREAM_PER_THREAD);
}
VARIANT cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned int value, size_t count) {
  return cuMemsetD32Async(to, value, count, CU_STREAM_PER_THREAD);
}
VARIANT cuMemsetD2D8_v2_ptds(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                             size_t height) {
  return cuMemsetD2D8Async(to, pitch, value, width, height, CU_STREAM_PER_THREAD);
}
VARIANT cuMemsetD2D16_v2_ptds(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                              size_t height) {
  return cuMemsetD2D16Async(to, pitch, value, width, height, CU_STREAM_PER_THREAD);
}
VARIANT cuMemsetD2D32_v2_ptds(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                              size_t height) {
  return cuMemsetD2D32Async(to, pitch, value, width, height, CU_STREAM_PER_THREAD);
}

VARIANT cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return cuMemcpyAsync(to, from, bytes, per_thread(stream));
}
VARIANT cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return cuMemcpyHtoDAsync_v2(to, from, bytes, per_thread(stream));
}
VARIANT cuMemcpyDtoHAsync_v2_ptsz(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return cuMemcpyDtoHAsync_v2(to, from, bytes, per_thread(stream));
}
VARIANT cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, per_thread(stream));
}
VARIANT cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                               CUcontext from_context, size_t bytes, CUstream stream) {
  return cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, per_thread(stream));
}
VARIANT cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* request, CUstream stream) {
  return cuMemcpy2DAsync_v2(request, per_thread(stream));
}
VARIANT cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return cuMemsetD8Async(to, value, count, per_thread(stream));
}
VARIANT cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return cuMemsetD16Async(to, value, count, per_thread(stream));
}
VARIANT cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return cuMemsetD32Async(to, value, count, per_thread(stream));
}
VARIANT cuMemsetD2D8Async_ptsz(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                               size_t height, CUstream stream) {
  return cuMemsetD2D8Async(to, pitch, value, width, height, per_thread(stream));
}
VARIANT cuMemsetD2D16Async_ptsz(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                                size_t height, CUstream stream) {
  return cuMemsetD2D16Async(to, pitch, value, width, height, per_thread(stream));
}
VARIANT cuMemsetD2D32Async_ptsz(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                                size_t height, CUstream stream) {
  return cuMemsetD2D32Async(to, pitch, value, width, height, per_thread(stream));
}
VARIANT cuMemAllocAsync_ptsz(CUdeviceptr* address, size_t bytes, CUstream stream) {
  return cuMemAllocAsync(address, bytes, per_thread(stream));
}
VARIANT cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  return cuMemFreeAsync(address, per_thread(stream));
}
VARIANT cuStreamSynchronize_ptsz(CUstream stream) {
  return cuStreamSynchronize(per_thread(stream));
}
VARIANT cuStreamQuery_ptsz(CUstream stream) { return cuStreamQuery(per_thread(stream)); }
VARIANT cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags) {
  return cuStreamWaitEvent(per_thread(stream), event, flags);
}
VARIANT cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void* user_data,
                                 unsigned int flags) {
  return cuStreamAddCallback(per_thread(stream), callback, user_data, flags);
}
VARIANT cuStreamGetPriority_ptsz(CUstream stream, int* priority) {
  return cuStreamGetPriority(stream, priority);
}
VARIANT cuStreamGetFlags_ptsz(CUstream stream, unsigned int* flags) {
  return cuStreamGetFlags(stream, flags);
}
VARIANT cuStreamGetId_ptsz(CUstream stream, unsigned long long* id) {
  return cuStreamGetId(per_thread(stream), id);
}
VARIANT cuStreamGetCtx_ptsz(CUstream stream, CUcontext* context) {
  return cuStreamGetCtx(per_thread(stream), context);
}
VARIANT cuStreamGetDevice_ptsz(CUstream stream, CUdevice* device_number) {
  return cuStreamGetDevice(per_thread(stream), device_number);
}
VARIANT cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus* status) {
  return cuStreamIsCapturing(per_thread(stream), status);
}
VARIANT cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return cuEventRecord(event, per_thread(stream));
}
VARIANT cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags) {
  return cuEventRecordWithFlags(event, per_thread(stream), flags);
}
VARIANT cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                            unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                            unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                            void** parameters, void** extra) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                        per_thread(stream), parameters, extra);
}
VARIANT cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void** parameters,
                              void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUlaunchConfig own = *config;
  own.hStream = per_thread(own.hStream);
  return cuLaunchKernelEx(&own, function, parameters, extra);
}
VARIANT cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int grid_x,
                                       unsigned int grid_y, unsigned int grid_z,
                                       unsigned int block_x, unsigned int block_y,
                                       unsigned int block_z, unsigned int shared_bytes,
                                       CUstream stream, void** parameters) {
  return cuLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                   shared_bytes, per_thread(stream), parameters);
}
VARIANT cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void* user_data) {
  return cuLaunchHostFunc(per_thread(stream), function, user_data);
}

// Of the second ABI, which differ in nothing for addresses of 64 bits.
VARIANT cuDevicePrimaryCtxRelease(CUdevice device_number) {
  return cuDevicePrimaryCtxRelease_v2(device_number);
}
VARIANT cuDevicePrimaryCtxReset(CUdevice device_number) {
  return cuDevicePrimaryCtxReset_v2(device_number);
}
VARIANT cuDevicePrimaryCtxSetFlags(CUdevice device_number, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device_number, flags);
}
VARIANT cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }
VARIANT cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }
VARIANT cuCtxDestroy(CUcontext context) { return cuCtxDestroy_v2(context); }
VARIANT cuCtxPushCurrent(CUcontext context) { return cuCtxPushCurrent_v2(context); }
VARIANT cuCtxPopCurrent(CUcontext* context) { return cuCtxPopCurrent_v2(context); }
VARIANT cuMemHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  return cuMemHostRegister_v2(pointer, bytes, flags);
}
