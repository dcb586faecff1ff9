#include "emulator/emulated_cuda/jit_options.h"

#include <algorithm>
#include <cstring>

namespace lambent::emulated_cuda {

namespace {
constexpr int kJitOptions = 35;  // CU_JIT_NUM_OPTIONS of CUDA 13
constexpr unsigned kMostOptimisation = 4;
// CU_JIT_OPTIMIZATION_LEVEL and CU_JIT_LOG_VERBOSE.
constexpr int kOptimisationLevel = 7, kLogVerbose = 12;
}  // namespace

CUresult JitOptions::read(unsigned int count, CUjit_option* options, void** values) {
  if (count && (!options || !values)) return CUDA_ERROR_INVALID_VALUE;
  const auto number = [&](unsigned i) {
    return static_cast<unsigned>(reinterpret_cast<uintptr_t>(values[i]));
  };
  for (unsigned i = 0; i < count; i++) {
    switch (static_cast<int>(options[i])) {
      case CU_JIT_ERROR_LOG_BUFFER:
        errors_.buffer = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        errors_.size = &values[i];
        errors_.bytes = number(i);
        break;
      case CU_JIT_INFO_LOG_BUFFER:
        information_.buffer = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        information_.size = &values[i];
        information_.bytes = number(i);
        break;
      case kOptimisationLevel:
        optimisation_ = number(i);
        if (optimisation_ > kMostOptimisation) return CUDA_ERROR_INVALID_VALUE;
        break;
      case kLogVerbose:
        is_verbose_ = number(i) != 0;
        break;
      default:
        if (options[i] < 0 || options[i] >= kJitOptions) return CUDA_ERROR_INVALID_VALUE;
    }
  }
  // There is nothing to tell until something was compiled or fails.
  if (information_.size) *information_.size = nullptr;
  if (errors_.size) *errors_.size = nullptr;
  return CUDA_SUCCESS;
}

void JitOptions::Log::write(const std::string& message) {
  if (!buffer || bytes == 0) return;
  const size_t used = std::min(message.size(), bytes - 1);
  std::memcpy(buffer, message.data(), used);
  buffer[used] = '\0';
  if (size) *size = reinterpret_cast<void*>(used);
}

}  // namespace lambent::emulated_cuda
