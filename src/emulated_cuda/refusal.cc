// What a function that is exported but not emulated does: says so once, and refuses.
#include "cuda_abi/driver_types.h"
#include "emulated_cuda/process.h"

extern "C" __attribute__((visibility("hidden"))) CUresult emulated_cuda_refuse(const char* name) {
  lambent::emulated_cuda::log_refusal(name, "not emulated");
  return CUDA_ERROR_NOT_SUPPORTED;
}
