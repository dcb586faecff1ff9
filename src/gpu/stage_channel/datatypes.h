// The numbers by which channels name the types of tensors' elements, and their sizes. Python's
// lambent.pipeline.values has the same table; a test holds one against the other.
#pragma once

#include <cstdint>

namespace lambent::stage_channel {

enum class Datatype : uint32_t {
  kBool = 1,
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
};

// Of an element, in bytes; 0 for a number that is no datatype.
constexpr uint64_t element_bytes(uint32_t datatype) {
  constexpr uint8_t kBytes[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16};
  return datatype < sizeof(kBytes) ? kBytes[datatype] : 0;
}

}  // namespace lambent::stage_channel
