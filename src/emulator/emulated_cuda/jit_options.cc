#include "emulator/emulated_cuda/jit_options.h"

#include <algorithm>
#include <cstring>

namespace lambent::emulated_cuda {

namespace {
constexpr int kJitOptions = 35;  // CU_JIT_NUM_OPTIONS of CUDA 13
}

CUresult JitOptions::read(unsigned int count, CUjit_option* options, void** values) {
  if (count && (!options || !values)) return CUDA_ERROR_INVALID_VALUE;
  void** info_size = nullptr;
  for (unsigned i = 0; i < count; i++) {
    switch (static_cast<int>(options[i])) {
      case CU_JIT_ERROR_LOG_BUFFER:
        error_buffer_ = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        error_size_ = &values[i];
        error_bytes_ = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values[i]));
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        info_size = &values[i];
        break;
      default:
        if (options[i] < 0 || options[i] >= kJitOptions) return CUDA_ERROR_INVALID_VALUE;
    }
  }
  // There is nothing to tell until something fails.
  if (info_size) *info_size = nullptr;
  if (error_size_) *error_size_ = nullptr;
  return CUDA_SUCCESS;
}

void JitOptions::write_error(const std::string& message) {
  if (!error_buffer_ || error_bytes_ == 0) return;
  size_t bytes = std::min(message.size(), error_bytes_ - 1);
  std::memcpy(error_buffer_, message.data(), bytes);
  error_buffer_[bytes] = '\0';
  if (error_size_) *error_size_ = reinterpret_cast<void*>(bytes);
}

}  // namespace lambent::emulated_cuda
