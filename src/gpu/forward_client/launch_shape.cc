#include "gpu/forward_client/launch_shape.h"

#include <cstring>

#include "gpu/forward_client/connection.h"
#include "gpu/forward_ring/ring.h"

namespace lambent::forward_client {
namespace {

int limit(CUdevice_attribute attribute) { return device().attributes[attribute]; }

}  // namespace

bool is_possible(const LaunchShape& shape) {
  static_assert(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z == CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + 2);
  static_assert(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z == CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + 2);
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    const auto block = static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
    const auto grid = static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
    if (shape.block[i] == 0 || shape.block[i] > static_cast<unsigned>(limit(block))) return false;
    if (shape.grid[i] == 0 || shape.grid[i] > static_cast<unsigned>(limit(grid))) return false;
    threads *= shape.block[i];
  }
  return threads <= static_cast<unsigned>(limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
}

CUresult check_shape(const FunctionRecord& function, const LaunchShape& shape) {
  if (!is_possible(shape)) return CUDA_ERROR_INVALID_VALUE;
  const unsigned threads = shape.block[0] * shape.block[1] * shape.block[2];
  const int most = function.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
  if (most > 0 && threads > static_cast<unsigned>(most)) return CUDA_ERROR_INVALID_VALUE;
  const int shared = function.attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
  if (shape.shared_bytes > static_cast<unsigned>(shared)) return CUDA_ERROR_INVALID_VALUE;
  return function.parameter_bytes <= forward_ring::kMostInlineBytes ? CUDA_SUCCESS
                                                                    : CUDA_ERROR_INVALID_VALUE;
}

CUresult pack_parameters(const FunctionRecord& function, void** parameters, void** extra,
                         char* packed) {
  if (extra != nullptr) {
    if (parameters != nullptr) return CUDA_ERROR_INVALID_VALUE;
    const void* bytes = nullptr;
    size_t size = 0;
    for (int at = 0; extra[at] != CU_LAUNCH_PARAM_END; at += 2) {
      if (extra[at] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
        bytes = extra[at + 1];
      } else if (extra[at] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
        size = *static_cast<size_t*>(extra[at + 1]);
      } else {
        return CUDA_ERROR_INVALID_VALUE;
      }
    }
    if (size < function.parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
    if (function.parameter_bytes > 0 && bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (function.parameter_bytes > 0) std::memcpy(packed, bytes, function.parameter_bytes);
    return CUDA_SUCCESS;
  }
  if (function.parameter_count > 0 && parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < function.parameter_count; ++i) {
    const auto& place = function.parameters[i];
    if (parameters[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(packed + place.offset, parameters[i], place.bytes);
  }
  return CUDA_SUCCESS;
}

}  // namespace lambent::forward_client
