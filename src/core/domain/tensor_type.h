// TensorType: what lies in a tensor: its datatype, by the names of the Open Inference Protocol, and
// its shape. A value; objects, kernel functions and their requests have one, on any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/state_archive.h"
#include "core/base/units.h"

namespace lambent {

// Numbers are little-endian, and lie row after row without gaps.
enum class DataType : uint8_t {
  kBytes,  // raw: the shape counts bytes
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp16,
  kBf16,
  kFp32,
  kFp64,
};
constexpr DataType kLastDataType = DataType::kFp64;

std::string_view name_of(DataType type);  // "BYTES", "BOOL", "UINT8", ..., "BF16", "FP32", "FP64"
std::optional<DataType> data_type_from(std::string_view name);
Bytes size_of(DataType type);  // of one element

struct TensorType {
  DataType datatype = DataType::kBytes;
  std::vector<uint64_t> shape;  // empty: one number

  bool operator==(const TensorType&) const = default;
  void archive(StateArchive& archive);
};

// "FP32 [512, 512]".
std::string to_string(const TensorType& type);

// Raw bytes, so many.
TensorType raw_tensor(Bytes bytes);

// How many bytes such a tensor has. INVALID_ARGUMENT for more than 16 dimensions, or if the number
// would not fit 63 bits.
Result<Bytes> byte_size(const TensorType& type);

}  // namespace lambent
