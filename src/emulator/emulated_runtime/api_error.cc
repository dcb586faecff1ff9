// Errors and versions.
#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

namespace {

const char* text_of(cudaError_t error) {
  switch (static_cast<int>(error)) {
#define RUNTIME_ERROR(name, value, description) \
  case value:                                   \
    if (description[0]) return description;     \
    break;
#include "gpu/cuda_abi/runtime_errors.inc"
#undef RUNTIME_ERROR
    default:
      return "unrecognized error code";
  }
  switch (static_cast<int>(error)) {
#define DRIVER_RESULT(name, value, description) \
  case value:                                   \
    return description;
#include "gpu/cuda_abi/driver_results.inc"
#undef DRIVER_RESULT
  }
  return "unknown error";
}

}  // namespace

RUNTIME_API cudaGetLastError() { return last_error(true); }
RUNTIME_API cudaPeekAtLastError() { return last_error(false); }

extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorName(cudaError_t error) {
  switch (static_cast<int>(error)) {
#define RUNTIME_ERROR(name, value, description) \
  case value:                                   \
    return #name;
#include "gpu/cuda_abi/runtime_errors.inc"
#undef RUNTIME_ERROR
  }
  return "unrecognized error code";
}

extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorString(
    cudaError_t error) {
  return text_of(error);
}

RUNTIME_API cudaRuntimeGetVersion(int* version) {
  if (!version) return record(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

RUNTIME_API cudaDriverGetVersion(int* version) {
  WITH_DRIVER();
  return record(cu.driver_get_version(version));
}

RUNTIME_API cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                             unsigned int version, unsigned long long flags,
                                             CUdriverProcAddressQueryResult* status) {
  WITH_DRIVER();
  if (!symbol || !function) return record(cudaErrorInvalidValue);
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  CUresult result =
      cu.get_proc_address_v2(symbol, function, static_cast<int>(version), flags, &found);
  if (status) *status = found;
  // That a name is unknown is an answer, not an error, for a caller that asks for it.
  if (status && result == CUDA_ERROR_NOT_FOUND) return cudaSuccess;
  return record(result);
}

RUNTIME_API cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    CUdriverProcAddressQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}

// For programs with a default stream of each thread. They take no stream, but give out functions
// that do.
RUNTIME_API cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function,
                                                  unsigned int version, unsigned long long flags,
                                                  CUdriverProcAddressQueryResult* status) {
  if (flags == CU_GET_PROC_ADDRESS_DEFAULT) flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  return cudaGetDriverEntryPointByVersion(symbol, function, version, flags, status);
}
RUNTIME_API cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function,
                                         unsigned long long flags,
                                         CUdriverProcAddressQueryResult* status) {
  return cudaGetDriverEntryPointByVersion_ptsz(symbol, function, CUDART_VERSION, flags, status);
}

RUNTIME_API cudaProfilerStart() {
  WITH_CONTEXT();
  return record(cu.profiler_start());
}

RUNTIME_API cudaProfilerStop() {
  WITH_CONTEXT();
  return record(cu.profiler_stop());
}
