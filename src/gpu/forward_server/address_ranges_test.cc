#include "gpu/forward_server/address_ranges.h"

#include <gtest/gtest.h>

namespace lambent::forward_server {
namespace {

constexpr CUdeviceptr kBase = 0x10000;
constexpr uint64_t kBytes = 0x1000;

class AddressRangesTest : public testing::Test {
 protected:
  void SetUp() override {
    ranges_.add(kBase, {kBytes, kBytes, 1, 0});
    ranges_.add(kBase + kBytes, {kBytes, kBytes, 1, 0});
  }
  AddressRanges ranges_;
};

TEST_F(AddressRangesTest, OnlyWhatLiesInOneRangeAsAWholeIsContained) {
  EXPECT_TRUE(ranges_.contains(kBase, kBytes));
  EXPECT_TRUE(ranges_.contains(kBase + kBytes - 1, 1));
  EXPECT_FALSE(ranges_.contains(kBase + kBytes - 1, 2));  // though its neighbour is known
  EXPECT_FALSE(ranges_.contains(kBase - 1, 1));
  EXPECT_FALSE(ranges_.contains(kBase + 2 * kBytes, 1));
  EXPECT_FALSE(ranges_.contains(kBase + 1, UINT64_MAX));
}

TEST_F(AddressRangesTest, RowsAreContainedUpToTheLastByteOfTheLast) {
  EXPECT_TRUE(ranges_.contains_rows(kBase, 0x100, 0x80, 0x10));
  EXPECT_TRUE(ranges_.contains_rows(kBase, 0x100, 0x100, 0x10));
  EXPECT_FALSE(ranges_.contains_rows(kBase, 0x100, 0x101, 0x10));
  EXPECT_FALSE(ranges_.contains_rows(kBase, 0x100, 0x80, 0x11));
  EXPECT_TRUE(ranges_.contains_rows(0, 0, 0, 5));         // of nothing
  EXPECT_TRUE(ranges_.contains_rows(kBase, 0, 0x80, 1));  // one has no distance to the next
  EXPECT_FALSE(ranges_.contains_rows(kBase, 0, 0x80, 2));
  EXPECT_FALSE(ranges_.contains_rows(kBase, 0x7f, 0x80, 2));
}

TEST_F(AddressRangesTest, RowsWhoseBytesOverflowAreNotContained) {
  EXPECT_FALSE(ranges_.contains_rows(kBase, uint64_t{1} << 63, 1, 3));
  EXPECT_FALSE(ranges_.contains_rows(kBase, UINT64_MAX, 2, 2));
}

TEST_F(AddressRangesTest, ErasuresAreCountedOnlyWhereSomethingWasErased) {
  const uint64_t before = ranges_.erasures();
  ranges_.erase(kBase + 1);
  EXPECT_EQ(ranges_.erasures(), before);
  ranges_.erase(kBase);
  EXPECT_EQ(ranges_.erasures(), before + 1);
  EXPECT_EQ(ranges_.find(kBase), nullptr);
  EXPECT_NE(ranges_.find(kBase + kBytes), nullptr);
}

}  // namespace
}  // namespace lambent::forward_server
