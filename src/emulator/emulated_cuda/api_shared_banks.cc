// The width of shared memory banks, which devices since Maxwell do not let one choose: calls that
// CUDA keeps for old programs. Checked and otherwise without effect.
#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

#define KEPT_FOR_OLD_PROGRAMS extern "C" __attribute__((visibility("default"))) CUresult

namespace {
constexpr int kDefaultBankSize = 0, kEightByteBankSize = 2;  // CUsharedconfig
}

KEPT_FOR_OLD_PROGRAMS cuCtxGetSharedMemConfig(int* configuration) {
  WITH_CONTEXT();
  if (!configuration) return CUDA_ERROR_INVALID_VALUE;
  *configuration = kDefaultBankSize;
  return CUDA_SUCCESS;
}

KEPT_FOR_OLD_PROGRAMS cuCtxSetSharedMemConfig(int configuration) {
  WITH_CONTEXT();
  bool known = configuration >= kDefaultBankSize && configuration <= kEightByteBankSize;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

KEPT_FOR_OLD_PROGRAMS cuFuncSetSharedMemConfig(CUfunction handle, int configuration) {
  WITH_PROCESS();
  if (!find_function(*process, handle)) return CUDA_ERROR_INVALID_HANDLE;
  bool known = configuration >= kDefaultBankSize && configuration <= kEightByteBankSize;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
