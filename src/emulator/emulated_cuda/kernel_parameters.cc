#include <algorithm>
#include <cstring>

#include "emulator/emulated_cuda/kernel_launch.h"

namespace lambent::emulated_cuda {

namespace {

size_t align_up(size_t value, size_t alignment) {
  alignment = std::max<size_t>(1, alignment);
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

CUresult copy_parameters(const emulated_kernel& kernel, void** given, void** extra,
                         std::shared_ptr<const Parameters>* out) {
  auto parameters = std::make_shared<Parameters>();
  std::vector<size_t> offsets;
  size_t total = 0;
  for (uint32_t i = 0; i < kernel.parameter_count; i++) {
    total = align_up(total, kernel.parameter_alignments[i]);
    offsets.push_back(total);
    total += kernel.parameter_sizes[i];
  }
  parameters->bytes.resize(total + 16);
  // Values keep their alignment only if the block of bytes begins aligned.
  auto base = reinterpret_cast<uintptr_t>(parameters->bytes.data());
  unsigned char* first = parameters->bytes.data() + (align_up(base, 16) - base);

  const unsigned char* packed = nullptr;
  size_t packed_bytes = 0;
  for (void** item = extra; item && *item != CU_LAUNCH_PARAM_END; item += 2) {
    if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      packed = static_cast<const unsigned char*>(item[1]);
    } else if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      packed_bytes = *static_cast<const size_t*>(item[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (given && packed) return CUDA_ERROR_INVALID_VALUE;
  if (total > 0 && !given && (!packed || packed_bytes < total)) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < kernel.parameter_count; i++) {
    const void* from = given ? given[i] : packed + offsets[i];
    if (!from) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(first + offsets[i], from, kernel.parameter_sizes[i]);
    parameters->pointers.push_back(first + offsets[i]);
  }
  parameters->pointers.push_back(nullptr);
  *out = std::move(parameters);
  return CUDA_SUCCESS;
}

}  // namespace lambent::emulated_cuda
