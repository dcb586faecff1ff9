// cuGetProcAddress, which picks among the names of a function, and the older names of those whose
// ABI has changed.
#include "gpu/cuda_abi/driver_versions.h"
#include "gpu/forward_client/api.h"
#include "gpu/forward_client/files.h"

using lambent::find_driver_symbol;
using namespace lambent::forward_client;

CUresult cuGetProcAddress_v2(const char* name, void** address, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || address == nullptr || flags > 3) return CUDA_ERROR_INVALID_VALUE;
  bool known = false;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const char* symbol = find_driver_symbol(name, version, per_thread, &known);
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
  static unsigned char said = 0;
  if (__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED) == 0) {
    say("NVIDIA's own CUDA runtime, and libraries that embed it (PyTorch, CuPy, cuBLAS), do not "
        "run "
        "over a shared GPU runtime: ",
        "deploy the function with runtime = \"own\" below [gpu]. On an emulated GPU they run "
        "neither way: build programs with `nvcc -cudart shared`, and leave out a libcudart of "
        "their own.");
  }
  return CUDA_ERROR_NOT_FOUND;
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
