// cuGetProcAddress, which picks among the names of a function, and the older names of those whose
// ABI has changed.
#include <dlfcn.h>

#include <algorithm>

#include "emulator/emulated_cuda/api.h"
#include "gpu/cuda_abi/driver_versions.h"

using lambent::find_driver_symbol;
using namespace lambent::emulated_cuda;

#define VARIANT extern "C" __attribute__((visibility("default"))) CUresult

namespace {

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
  const char* symbol = find_driver_symbol(
      name, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
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
  log_refusal(
      "cuGetExportTable",
      "NVIDIA's own CUDA runtime does not run here, nor do the libraries that embed it "
      "(PyTorch, CuPy, cuBLAS): use them on the CPU, or on a worker with an NVIDIA GPU "
      "(lambent serve --gpu nvidia); link own programs with `nvcc -cudart shared` and leave "
      "out a libcudart of their own; outside a worker, put lib/emulated_runtime on their "
      "library path");
  return CUDA_ERROR_NOT_FOUND;
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
