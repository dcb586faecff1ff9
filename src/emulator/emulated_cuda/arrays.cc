#include "emulator/emulated_cuda/arrays.h"

namespace lambent::emulated_cuda {

size_t channel_bytes(int format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

namespace {

// Within what any device takes.
constexpr size_t kMostElements = size_t{1} << 17;

}  // namespace

CUresult check_array(const CUDA_ARRAY3D_DESCRIPTOR& descriptor, size_t* element_bytes) {
  const CUDA_ARRAY3D_DESCRIPTOR& d = descriptor;
  if (d.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (d.Flags & ~0xFFu) return CUDA_ERROR_INVALID_VALUE;
  if (d.NumChannels != 1 && d.NumChannels != 2 && d.NumChannels != 4) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  size_t one = channel_bytes(d.Format);
  if (one == 0) return d.Format > 0x20 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  bool sized = d.Width > 0 && d.Width <= kMostElements && d.Height <= kMostElements &&
               d.Depth <= kMostElements;
  if (!sized) return CUDA_ERROR_INVALID_VALUE;
  bool cube = d.Flags & CUDA_ARRAY3D_CUBEMAP, layered = d.Flags & CUDA_ARRAY3D_LAYERED;
  if (cube && (d.Width != d.Height || d.Depth == 0 || d.Depth % 6 || (!layered && d.Depth != 6))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (layered && d.Depth == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!layered && d.Depth > 0 && d.Height == 0) return CUDA_ERROR_INVALID_VALUE;
  *element_bytes = one * d.NumChannels;
  return CUDA_SUCCESS;
}

bool array_side(const Array& array, size_t x_bytes, size_t y, size_t z, size_t width_bytes,
                size_t height, size_t depth, Side* side) {
  auto fits = [](size_t from, size_t count, size_t all) {
    return from <= all && count <= all - from;
  };
  bool inside = fits(x_bytes, width_bytes, array.row_bytes()) && fits(y, height, array.rows()) &&
                fits(z, depth, array.layers());
  if (!inside) return false;
  size_t layer = array.row_bytes() * array.rows();
  side->address = array.base + z * layer + y * array.row_bytes() + x_bytes;
  side->device = true;
  side->pinned = true;
  side->device_index = array.device;
  return true;
}

}  // namespace lambent::emulated_cuda
