// How much device memory an array takes. Pure functions; used by the array hooks, on any thread.
#pragma once

#include <cstdint>

namespace lambent::shim {

// The fields that the array descriptors of all versions have in common.
struct ArrayShape {
  uint64_t width = 0;
  uint64_t height = 0;  // 0: one dimension
  uint64_t depth = 0;   // 0: at most two; the number of layers of a layered array
  unsigned format = 0;  // CUarray_format
  unsigned channels = 1;
  unsigned flags = 0;
};

// Bytes of all elements, without the driver's own padding; 0 for arrays that get their memory later
// (sparse, deferred mapping). Saturates.
uint64_t array_bytes(const ArrayShape& shape);
// The sum over the levels, each half as wide, high and deep as the one before; layers stay.
uint64_t mipmapped_array_bytes(ArrayShape shape, unsigned levels);

}  // namespace lambent::shim
