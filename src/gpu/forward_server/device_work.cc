#include "gpu/forward_server/device_work.h"

namespace lambent::forward_server {

CUresult queue_copy(const cuda::Driver& driver, CUstream stream, std::span<const uint64_t> a) {
  const uint64_t to = a[0], to_pitch = a[1], from = a[2], from_pitch = a[3], width = a[4],
                 height = a[5];
  if (height == 1) return driver->memcpy_d_to_d_async(to, from, width, stream);
  CUDA_MEMCPY2D request{};
  request.srcMemoryType = request.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  request.srcDevice = from;
  request.srcPitch = from_pitch;
  request.dstDevice = to;
  request.dstPitch = to_pitch;
  request.WidthInBytes = width;
  request.Height = height;
  return driver->memcpy_2d_async(&request, stream);
}

CUresult queue_fill(const cuda::Driver& driver, CUstream stream, std::span<const uint64_t> a) {
  const uint64_t to = a[0], pitch = a[1], value = a[2], element = a[3], width = a[4], height = a[5];
  const auto byte = static_cast<unsigned char>(value);
  const auto half = static_cast<unsigned short>(value);
  const auto word = static_cast<unsigned>(value);
  if (height == 1) {
    if (element == 1) return driver->memset_d8_async(to, byte, width, stream);
    if (element == 2) return driver->memset_d16_async(to, half, width, stream);
    return driver->memset_d32_async(to, word, width, stream);
  }
  if (element == 1) return driver->memset_2d_d8_async(to, pitch, byte, width, height, stream);
  if (element == 2) return driver->memset_2d_d16_async(to, pitch, half, width, height, stream);
  return driver->memset_2d_d32_async(to, pitch, word, width, height, stream);
}

}  // namespace lambent::forward_server
