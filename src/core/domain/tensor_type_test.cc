#include "core/domain/tensor_type.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

TEST(TensorType, EveryDataTypeHasANameThatFindsItAgain) {
  for (uint8_t i = 0; i <= static_cast<uint8_t>(kLastDataType); ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(data_type_from(name_of(type)), type);
  }
  EXPECT_FALSE(data_type_from("fp32").has_value());
  EXPECT_FALSE(data_type_from("").has_value());
}

TEST(TensorType, CountsItsBytes) {
  EXPECT_EQ(*byte_size({DataType::kFp32, {512, 512}}), Bytes::mib(1));
  EXPECT_EQ(*byte_size({DataType::kFp64, {}}), Bytes(8));
  EXPECT_EQ(*byte_size({DataType::kBf16, {3, 0}}), Bytes(0));
  EXPECT_EQ(*byte_size(raw_tensor(Bytes(77))), Bytes(77));
}

TEST(TensorType, RefusesWhatCannotBeCounted) {
  const TensorType huge{DataType::kFp64, {uint64_t{1} << 31, uint64_t{1} << 31}};
  const auto size = byte_size(huge);
  ASSERT_FALSE(size.ok());
  EXPECT_EQ(size.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(size.error().message, "FP64 [2147483648, 2147483648] is too large to be counted");
  EXPECT_FALSE(byte_size({DataType::kUint8, std::vector<uint64_t>(17, 1)}).ok());
}

}  // namespace
}  // namespace lambent
