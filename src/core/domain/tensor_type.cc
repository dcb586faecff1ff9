#include "core/domain/tensor_type.h"

#include <array>

namespace lambent {
namespace {

constexpr size_t kMostDimensions = 16;

struct DataTypeRow {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<DataTypeRow, static_cast<size_t>(kLastDataType) + 1> kDataTypes{{
    {"BYTES", 1},
    {"BOOL", 1},
    {"UINT8", 1},
    {"UINT16", 2},
    {"UINT32", 4},
    {"UINT64", 8},
    {"INT8", 1},
    {"INT16", 2},
    {"INT32", 4},
    {"INT64", 8},
    {"FP16", 2},
    {"BF16", 2},
    {"FP32", 4},
    {"FP64", 8},
}};

const DataTypeRow& row_of(DataType type) { return kDataTypes[static_cast<size_t>(type)]; }

}  // namespace

std::string_view name_of(DataType type) { return row_of(type).name; }

std::optional<DataType> data_type_from(std::string_view name) {
  for (size_t i = 0; i < kDataTypes.size(); ++i) {
    if (kDataTypes[i].name == name) return static_cast<DataType>(i);
  }
  return std::nullopt;
}

Bytes size_of(DataType type) { return Bytes(row_of(type).bytes); }

void TensorType::archive(StateArchive& archive) {
  archive.choice(datatype, kLastDataType);
  archive.list(shape);
}

std::string to_string(const TensorType& type) {
  std::string text = std::string(name_of(type.datatype)) + " [";
  for (size_t i = 0; i < type.shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(type.shape[i]);
  }
  return text + "]";
}

TensorType raw_tensor(Bytes bytes) { return {DataType::kBytes, {bytes.count}}; }

Result<Bytes> byte_size(const TensorType& type) {
  if (type.shape.size() > kMostDimensions) {
    return Error{ErrorCode::kInvalidArgument, "a tensor of " + std::to_string(type.shape.size()) +
                                                  " dimensions; at most " +
                                                  std::to_string(kMostDimensions) + " are taken"};
  }
  uint64_t bytes = size_of(type.datatype).count;
  for (const uint64_t extent : type.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > INT64_MAX) {
      return Error{ErrorCode::kInvalidArgument, to_string(type) + " is too large to be counted"};
    }
  }
  return Bytes(bytes);
}

}  // namespace lambent
