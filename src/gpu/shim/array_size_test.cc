#include "gpu/shim/array_size.h"

#include <gtest/gtest.h>

namespace lambent::shim {
namespace {

constexpr unsigned kFloat = 0x20;
constexpr unsigned kHalf = 0x10;

TEST(ArraySize, IsExtentsTimesChannelsTimesElement) {
  EXPECT_EQ(array_bytes({100, 0, 0, kFloat, 1, 0}), 400u);
  EXPECT_EQ(array_bytes({100, 50, 0, kFloat, 4, 0}), 80000u);
  EXPECT_EQ(array_bytes({100, 50, 2, kHalf, 1, 0}), 20000u);
}

TEST(ArraySize, IsZeroForArraysThatGetTheirMemoryLater) {
  EXPECT_EQ(array_bytes({100, 50, 0, kFloat, 1, 0x40}), 0u);
  EXPECT_EQ(array_bytes({100, 50, 0, kFloat, 1, 0x80}), 0u);
}

TEST(ArraySize, SaturatesInsteadOfWrapping) {
  EXPECT_EQ(array_bytes({UINT64_MAX, UINT64_MAX, 8, kFloat, 4, 0}), UINT64_MAX);
}

TEST(ArraySize, OfAMipmappedArrayIsTheSumOfItsLevels) {
  EXPECT_EQ(mipmapped_array_bytes({8, 8, 0, kFloat, 1, 0}, 3), (64u + 16 + 4) * 4);
}

}  // namespace
}  // namespace lambent::shim
