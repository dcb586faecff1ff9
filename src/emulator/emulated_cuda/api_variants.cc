// The other names of implemented functions: per-thread-default-stream variants, older ABIs, and
// cuGetProcAddress, which picks among them.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

#define VARIANT extern "C" __attribute__((visibility("default"))) CUresult

namespace {

CUstream per_thread(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

// A synchronous call of the per-thread variant: the asynchronous one, then the wait.
CUresult then_wait(CUresult submitted) {
  return submitted ? submitted : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

struct Version {
  const char* name;
  int version;
  const char* symbol;
  bool per_thread;
};
const Version kVersions[] = {
#define DRIVER_VERSION(name, version, symbol, per_thread) {#name, version, #symbol, per_thread},
#include "gpu/cuda_abi/driver_versions.inc"
#undef DRIVER_VERSION
};

// The newest entry point of this name that `version` knows; the per-thread variant if asked for
// and there is one.
const char* choose_symbol(const char* name, int version, bool per_thread, bool* known) {
  const Version* plain = nullptr;
  const Version* own = nullptr;
  *known = false;
  for (const Version& row : kVersions) {
    if (std::strcmp(row.name, name) != 0) continue;
    *known = true;
    if (row.version > version) continue;
    const Version*& best = row.per_thread ? own : plain;
    if (!best || row.version > best->version) best = &row;
  }
  if (per_thread && own) return own->symbol;
  return plain ? plain->symbol : nullptr;
}

void* own_symbol(const char* symbol) {
  static void* self = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void*>(&cuInit), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return self ? dlsym(self, symbol) : nullptr;
}

}  // namespace

CUresult cuGetProcAddress_v2(const char* name, void** address, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (!name || !address || flags > 3) return CUDA_ERROR_INVALID_VALUE;
  bool known = false;
  const char* symbol =
      choose_symbol(name, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
  *address = symbol ? own_symbol(symbol) : nullptr;
  if (status) {
    *status = *address ? CU_GET_PROC_ADDRESS_SUCCESS
              : known  ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  // With a status to tell why, an unknown name is an answer rather than an error.
  return *address || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char* name, void** address, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, address, version, flags, nullptr);
}

// Private tables of other NVIDIA libraries: there are none.
CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  if (!table || !id) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  log_refusal("cuGetExportTable",
              "NVIDIA's own CUDA runtime does not run here, nor do the libraries that embed it "
              "(PyTorch, CuPy, cuBLAS): link programs with `nvcc -cudart shared` and put "
              "lib/emulated_runtime on their library path");
  return CUDA_ERROR_NOT_FOUND;
}

// Per-thread default stream.
VARIANT cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, size_t bytes) {
  return then_wait(cuMemcpyHtoDAsync_v2(to, from, bytes, CU_STREAM_PER_THREAD));
}
VARIANT cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, size_t bytes) {
  return then_wait(cuMemcpyDtoHAsync_v2(to, from, bytes, CU_STREAM_PER_THREAD));
}
VARIANT cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, CU_STREAM_PER_THREAD);
}
VARIANT cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return then_wait(cuMemcpyAsync(to, from, bytes, CU_STREAM_PER_THREAD));
}
VARIANT cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                          CUcontext from_context, size_t bytes) {
  return cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, CU_STREAM_PER_THREAD);
}
VARIANT cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* request) {
  return then_wait(cuMemcpy2DAsync_v2(request, CU_STREAM_PER_THREAD));
}
VARIANT cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* request) {
  return then_wait(cuMemcpy2DAsync_v2(request, CU_STREAM_PER_THREAD));
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
VARIANT cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void* from, size_t bytes, CUstream s) {
  return cuMemcpyHtoDAsync_v2(to, from, bytes, per_thread(s));
}
VARIANT cuMemcpyDtoHAsync_v2_ptsz(void* to, CUdeviceptr from, size_t bytes, CUstream s) {
  return cuMemcpyDtoHAsync_v2(to, from, bytes, per_thread(s));
}
VARIANT cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, per_thread(s));
}
VARIANT cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  return cuMemcpyAsync(to, from, bytes, per_thread(s));
}
VARIANT cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                               CUcontext from_context, size_t bytes, CUstream s) {
  return cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, per_thread(s));
}
VARIANT cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* request, CUstream s) {
  return cuMemcpy2DAsync_v2(request, per_thread(s));
}
VARIANT cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream s) {
  return cuMemsetD8Async(to, value, count, per_thread(s));
}
VARIANT cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, size_t count, CUstream s) {
  return cuMemsetD16Async(to, value, count, per_thread(s));
}
VARIANT cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned int value, size_t count, CUstream s) {
  return cuMemsetD32Async(to, value, count, per_thread(s));
}
VARIANT cuMemsetD2D8_v2_ptds(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                             size_t height) {
  return cuMemsetD2D8Async(to, pitch, value, width, height, CU_STREAM_PER_THREAD);
}
VARIANT cuMemsetD2D8Async_ptsz(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                               size_t height, CUstream s) {
  return cuMemsetD2D8Async(to, pitch, value, width, height, per_thread(s));
}
VARIANT cuMemsetD2D16_v2_ptds(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                              size_t height) {
  return cuMemsetD2D16Async(to, pitch, value, width, height, CU_STREAM_PER_THREAD);
}
VARIANT cuMemsetD2D16Async_ptsz(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                                size_t height, CUstream s) {
  return cuMemsetD2D16Async(to, pitch, value, width, height, per_thread(s));
}
VARIANT cuMemsetD2D32_v2_ptds(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                              size_t height) {
  return cuMemsetD2D32Async(to, pitch, value, width, height, CU_STREAM_PER_THREAD);
}
VARIANT cuMemsetD2D32Async_ptsz(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                                size_t height, CUstream s) {
  return cuMemsetD2D32Async(to, pitch, value, width, height, per_thread(s));
}
VARIANT cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* request) {
  return then_wait(cuMemcpy3DAsync_v2(request, CU_STREAM_PER_THREAD));
}
VARIANT cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* request, CUstream s) {
  return cuMemcpy3DAsync_v2(request, per_thread(s));
}
VARIANT cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER* request) {
  return cuMemcpy3DPeerAsync(request, CU_STREAM_PER_THREAD);
}
VARIANT cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER* request, CUstream s) {
  return cuMemcpy3DPeerAsync(request, per_thread(s));
}
VARIANT cuMemcpyBatchAsync_ptsz(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                                CUmemcpyAttributes* attributes, size_t* indices,
                                size_t attribute_count, size_t* failed, CUstream s) {
  return cuMemcpyBatchAsync(to, from, sizes, count, attributes, indices, attribute_count, failed,
                            per_thread(s));
}
VARIANT cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                                   CUmemcpyAttributes* attributes, size_t* indices,
                                   size_t attribute_count, CUstream s) {
  return cuMemcpyBatchAsync_v2(to, from, sizes, count, attributes, indices, attribute_count,
                               per_thread(s));
}
VARIANT cuMemcpy3DBatchAsync_ptsz(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, size_t* failed,
                                  unsigned long long flags, CUstream s) {
  return cuMemcpy3DBatchAsync(count, operations, failed, flags, per_thread(s));
}
VARIANT cuMemcpy3DBatchAsync_v2_ptsz(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations,
                                     unsigned long long flags, CUstream s) {
  return cuMemcpy3DBatchAsync_v2(count, operations, flags, per_thread(s));
}
VARIANT cuMemcpyDtoA_v2_ptds(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) {
  return cuMemcpyDtoA_v2(to, offset, from, bytes);
}
VARIANT cuMemcpyAtoD_v2_ptds(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) {
  return cuMemcpyAtoD_v2(to, from, offset, bytes);
}
VARIANT cuMemcpyAtoA_v2_ptds(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                             size_t bytes) {
  return cuMemcpyAtoA_v2(to, to_offset, from, from_offset, bytes);
}
VARIANT cuMemcpyHtoA_v2_ptds(CUarray to, size_t offset, const void* from, size_t bytes) {
  return then_wait(cuMemcpyHtoAAsync_v2(to, offset, from, bytes, CU_STREAM_PER_THREAD));
}
VARIANT cuMemcpyAtoH_v2_ptds(void* to, CUarray from, size_t offset, size_t bytes) {
  return then_wait(cuMemcpyAtoHAsync_v2(to, from, offset, bytes, CU_STREAM_PER_THREAD));
}
VARIANT cuMemcpyHtoAAsync_v2_ptsz(CUarray to, size_t offset, const void* from, size_t bytes,
                                  CUstream s) {
  return cuMemcpyHtoAAsync_v2(to, offset, from, bytes, per_thread(s));
}
VARIANT cuMemcpyAtoHAsync_v2_ptsz(void* to, CUarray from, size_t offset, size_t bytes, CUstream s) {
  return cuMemcpyAtoHAsync_v2(to, from, offset, bytes, per_thread(s));
}
VARIANT cuMemAllocAsync_ptsz(CUdeviceptr* address, size_t bytes, CUstream s) {
  return cuMemAllocAsync(address, bytes, per_thread(s));
}
VARIANT cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                     CUstream s) {
  return cuMemAllocFromPoolAsync(address, bytes, pool, per_thread(s));
}
VARIANT cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream s) {
  return cuMemFreeAsync(address, per_thread(s));
}
VARIANT cuMemPrefetchAsync_ptsz(CUdeviceptr address, size_t bytes, CUdevice device, CUstream s) {
  return cuMemPrefetchAsync(address, bytes, device, per_thread(s));
}
VARIANT cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, size_t bytes, CUmemLocation location,
                                   unsigned int flags, CUstream s) {
  return cuMemPrefetchAsync_v2(address, bytes, location, flags, per_thread(s));
}
VARIANT cuMemPrefetchBatchAsync_ptsz(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                     CUmemLocation* locations, size_t* indices,
                                     size_t location_count, unsigned long long flags, CUstream s) {
  return cuMemPrefetchBatchAsync(addresses, sizes, count, locations, indices, location_count, flags,
                                 per_thread(s));
}
VARIANT cuMemDiscardBatchAsync_ptsz(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                    unsigned long long flags, CUstream s) {
  return cuMemDiscardBatchAsync(addresses, sizes, count, flags, per_thread(s));
}
VARIANT cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                               CUmemLocation* locations, size_t* indices,
                                               size_t location_count, unsigned long long flags,
                                               CUstream s) {
  return cuMemDiscardAndPrefetchBatchAsync(addresses, sizes, count, locations, indices,
                                           location_count, flags, per_thread(s));
}
VARIANT cuStreamAttachMemAsync_ptsz(CUstream s, CUdeviceptr address, size_t bytes,
                                    unsigned int flags) {
  return cuStreamAttachMemAsync(per_thread(s), address, bytes, flags);
}
VARIANT cuStreamSynchronize_ptsz(CUstream s) { return cuStreamSynchronize(per_thread(s)); }
VARIANT cuStreamQuery_ptsz(CUstream s) { return cuStreamQuery(per_thread(s)); }
VARIANT cuStreamWaitEvent_ptsz(CUstream s, CUevent event, unsigned int flags) {
  return cuStreamWaitEvent(per_thread(s), event, flags);
}
VARIANT cuStreamAddCallback_ptsz(CUstream s, CUstreamCallback callback, void* user_data,
                                 unsigned int flags) {
  return cuStreamAddCallback(per_thread(s), callback, user_data, flags);
}
VARIANT cuStreamGetPriority_ptsz(CUstream s, int* priority) {
  return cuStreamGetPriority(per_thread(s), priority);
}
VARIANT cuStreamGetFlags_ptsz(CUstream s, unsigned int* flags) {
  return cuStreamGetFlags(per_thread(s), flags);
}
VARIANT cuStreamGetCtx_ptsz(CUstream s, CUcontext* context) {
  return cuStreamGetCtx(per_thread(s), context);
}
VARIANT cuStreamGetCtx_v2_ptsz(CUstream s, CUcontext* context, CUgreenCtx* green) {
  return cuStreamGetCtx_v2(per_thread(s), context, green);
}
VARIANT cuStreamGetId_ptsz(CUstream s, unsigned long long* id) {
  return cuStreamGetId(per_thread(s), id);
}
VARIANT cuStreamGetDevice_ptsz(CUstream s, CUdevice* device) {
  return cuStreamGetDevice(per_thread(s), device);
}
VARIANT cuStreamIsCapturing_ptsz(CUstream s, CUstreamCaptureStatus* status) {
  return cuStreamIsCapturing(per_thread(s), status);
}
VARIANT cuEventRecord_ptsz(CUevent event, CUstream s) {
  return cuEventRecord(event, per_thread(s));
}
VARIANT cuEventRecordWithFlags_ptsz(CUevent event, CUstream s, unsigned int flags) {
  return cuEventRecordWithFlags(event, per_thread(s), flags);
}
VARIANT cuLaunchHostFunc_ptsz(CUstream s, CUhostFn function, void* user_data) {
  return cuLaunchHostFunc(per_thread(s), function, user_data);
}
VARIANT cuLaunchKernel_ptsz(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                            unsigned int bx, unsigned int by, unsigned int bz,
                            unsigned int shared_bytes, CUstream s, void** parameters,
                            void** extra) {
  return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared_bytes, per_thread(s), parameters,
                        extra);
}
VARIANT cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void** parameters,
                              void** extra) {
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  CUlaunchConfig own = *config;
  own.hStream = per_thread(own.hStream);
  return cuLaunchKernelEx(&own, function, parameters, extra);
}

// Older ABIs. Those with 32-bit device addresses are refused: ours do not fit.
VARIANT cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v2(context, flags, device);
}
VARIANT cuCtxDestroy(CUcontext context) { return cuCtxDestroy_v2(context); }
VARIANT cuCtxPushCurrent(CUcontext context) { return cuCtxPushCurrent_v2(context); }
VARIANT cuCtxPopCurrent(CUcontext* context) { return cuCtxPopCurrent_v2(context); }
VARIANT cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }
VARIANT cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }
VARIANT cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }
VARIANT cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }
VARIANT cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}
VARIANT cuMemHostRegister(void* address, size_t bytes, unsigned int flags) {
  return cuMemHostRegister_v2(address, bytes, flags);
}
VARIANT cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned int flags) {
  return cuIpcOpenMemHandle_v2(address, handle, flags);
}
VARIANT cuMemAllocHost(void** address, unsigned int bytes) {
  return cuMemAllocHost_v2(address, bytes);
}
VARIANT cuDeviceTotalMem(unsigned int* bytes, CUdevice device) {
  size_t total = 0;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = cuDeviceTotalMem_v2(&total, device)) return result;
  *bytes = static_cast<unsigned int>(std::min<size_t>(total, 0xFFFFFFFFu));
  return CUDA_SUCCESS;
}
VARIANT cuMemGetInfo(unsigned int* free, unsigned int* total) {
  size_t free_bytes = 0, total_bytes = 0;
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = cuMemGetInfo_v2(&free_bytes, &total_bytes)) return result;
  *free = static_cast<unsigned int>(std::min<size_t>(free_bytes, 0xFFFFFFFFu));
  *total = static_cast<unsigned int>(std::min<size_t>(total_bytes, 0xFFFFFFFFu));
  return CUDA_SUCCESS;
}
