#include "gpu/shim/array_size.h"

namespace lambent::shim {
namespace {

constexpr unsigned kFlagLayered = 0x01;
constexpr unsigned kFlagCubemap = 0x04;
constexpr unsigned kFlagSparse = 0x40;
constexpr unsigned kFlagDeferredMapping = 0x80;

uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

// Bits of one element of one channel; block-compressed and planar formats count as what they take
// on average. A format that we do not know counts as 8 bits: rather too little than an array
// refused.
unsigned bits_per_channel(unsigned format) {
  switch (format) {
    case 0x02:  // unsigned and signed 16, half
    case 0x09:
    case 0x10:
      return 16;
    case 0x03:  // unsigned and signed 32, float
    case 0x0a:
    case 0x20:
      return 32;
    default:
      return 8;
  }
}

uint64_t halved(uint64_t extent) { return extent <= 1 ? extent : extent / 2; }

}  // namespace

uint64_t array_bytes(const ArrayShape& shape) {
  if ((shape.flags & (kFlagSparse | kFlagDeferredMapping)) != 0) return 0;
  uint64_t elements = shape.width;
  if (shape.height > 0) elements = times(elements, shape.height);
  if (shape.depth > 0) elements = times(elements, shape.depth);
  const uint64_t bits = times(elements, uint64_t{bits_per_channel(shape.format)} * shape.channels);
  return bits == UINT64_MAX ? UINT64_MAX : bits / 8;
}

uint64_t mipmapped_array_bytes(ArrayShape shape, unsigned levels) {
  const bool depth_is_layers = (shape.flags & (kFlagLayered | kFlagCubemap)) != 0;
  uint64_t sum = 0;
  for (unsigned level = 0; level < levels && level < 64; ++level) {
    const uint64_t bytes = array_bytes(shape);
    if (__builtin_add_overflow(sum, bytes, &sum)) return UINT64_MAX;
    shape.width = halved(shape.width);
    shape.height = halved(shape.height);
    if (!depth_is_layers) shape.depth = halved(shape.depth);
    if (shape.width <= 1 && shape.height <= 1 && (shape.depth <= 1 || depth_is_layers)) break;
  }
  return sum;
}

}  // namespace lambent::shim
