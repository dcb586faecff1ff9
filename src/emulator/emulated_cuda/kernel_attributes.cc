#include "emulator/emulated_cuda/kernel_attributes.h"

#include <algorithm>

namespace lambent::emulated_cuda {

namespace {
constexpr uint32_t kMostThreads = 1024;
constexpr int kLeastCarveout = -1, kMostCarveout = 100;  // per cent; -1: the driver's choice
}  // namespace

CUresult kernel_attribute(const emulated_node::DeviceSpec& spec, const emulated_kernel& kernel,
                          int max_dynamic_shared_bytes, CUfunction_attribute attribute,
                          int* value) {
  const int capability = spec.compute_major * 10 + spec.compute_minor;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(std::min(kMostThreads, kernel.max_threads_per_block
                                                           ? kernel.max_threads_per_block
                                                           : kMostThreads));
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel.static_shared_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = static_cast<int>(kernel.registers_per_thread);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      // Libraries choose by it how they launch their kernels, so it is what these were made for.
      *value = kernel.ptx_version != 0 ? kernel.ptx_version : capability;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = max_dynamic_shared_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = kLeastCarveout;
      return CUDA_SUCCESS;
    default:
      if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
      *value = 0;
      return CUDA_SUCCESS;
  }
}

CUresult check_settable(const emulated_node::DeviceSpec& spec, const emulated_kernel& kernel,
                        CUfunction_attribute attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    return value < kLeastCarveout || value > kMostCarveout ? CUDA_ERROR_INVALID_VALUE
                                                           : CUDA_SUCCESS;
  }
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  int limit = spec.shared_bytes_per_block_optin - static_cast<int>(kernel.static_shared_bytes);
  return value < 0 || value > limit ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult parameter_place(const emulated_kernel& kernel, size_t index, size_t* offset,
                         size_t* size) {
  if (index >= kernel.parameter_count) return CUDA_ERROR_INVALID_VALUE;
  size_t at = 0;
  for (size_t i = 0;; i++) {
    size_t alignment = std::max<size_t>(1, kernel.parameter_alignments[i]);
    at = (at + alignment - 1) / alignment * alignment;
    if (i == index) break;
    at += kernel.parameter_sizes[i];
  }
  *offset = at;
  if (size) *size = kernel.parameter_sizes[index];
  return CUDA_SUCCESS;
}

}  // namespace lambent::emulated_cuda
