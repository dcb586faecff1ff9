#include "gpu/device_memory/allocations.h"

#include <gtest/gtest.h>

namespace lambent::device_memory {
namespace {

int some_context;
int other_context;
const Owner kOwner{&some_context, 0};
constexpr uint64_t kBase = 1 << 30;

Block block_at(uint64_t base, uint64_t bytes, Owner owner = kOwner) {
  Block block;
  block.base = base;
  block.bytes = bytes;
  block.owner = owner;
  return block;
}

Allocation wanted(uint64_t bytes, Owner owner = kOwner) {
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.owner = owner;
  return allocation;
}

TEST(Allocations, SmallOnesOfOneOwnerShareABlock) {
  Allocations all;
  Allocation first = wanted(100);
  EXPECT_FALSE(all.place_small(&first)) << "there is no block yet";
  ASSERT_TRUE(all.add_block(block_at(kBase, kPieceBlockBytes), true));
  Allocation second = wanted(100);
  ASSERT_TRUE(all.place_small(&first));
  ASSERT_TRUE(all.place_small(&second));
  EXPECT_EQ(first.base, kBase);
  EXPECT_EQ(second.base, kBase + 512);
  EXPECT_NE(first.number, second.number);
  Allocation foreign = wanted(100, Owner{&other_context, 0});
  EXPECT_FALSE(all.place_small(&foreign)) << "the block goes with its owner";
}

TEST(Allocations, AnAddressIsKnownWithinWhatWasAskedForAndNotBeyond) {
  Allocations all;
  ASSERT_TRUE(all.add_block(block_at(kBase, kPieceBlockBytes), true));
  Allocation first = wanted(100);
  ASSERT_TRUE(all.place_small(&first));
  EXPECT_EQ(all.containing(kBase + 99)->base, kBase);
  EXPECT_EQ(all.containing(kBase + 100), nullptr);
  EXPECT_EQ(all.at(kBase + 1), nullptr);
}

TEST(Allocations, WhatIsLeavingIsUnknownToTheProgram) {
  Allocations all;
  ASSERT_TRUE(all.add_block(block_at(kBase, kPieceBlockBytes), true));
  Allocation first = wanted(100);
  ASSERT_TRUE(all.place_small(&first));
  all.at(kBase)->is_leaving = true;
  EXPECT_EQ(all.at(kBase), nullptr);
  EXPECT_EQ(all.containing(kBase), nullptr);
  EXPECT_NE(all.leaving_at(kBase), nullptr);
}

TEST(Allocations, AWholeBlockGoesWithItsAllocation) {
  Allocations all;
  ASSERT_TRUE(all.add_block(block_at(kBase, 4 * kPieceBlockBytes), false));
  Allocation large = wanted(3 * kPieceBlockBytes);
  large.base = kBase;
  ASSERT_TRUE(all.place_whole(&large));
  Block gone;
  ASSERT_TRUE(all.remove(all.at(kBase), &gone));
  EXPECT_EQ(gone.base, kBase);
  EXPECT_EQ(all.blocks().size(), 0u);
  EXPECT_EQ(all.all().size(), 0u);
}

TEST(Allocations, WhatIsLeavingCanBecomeAnotherAllocationInItsPlace) {
  Allocations all;
  ASSERT_TRUE(all.add_block(block_at(kBase, 4 * kPieceBlockBytes), false));
  Allocation large = wanted(3 * kPieceBlockBytes + 1);
  large.base = kBase;
  ASSERT_TRUE(all.place_whole(&large));
  Allocation next = wanted(3 * kPieceBlockBytes + 1000);
  next.base = kBase;
  EXPECT_FALSE(all.revive(&next)) << "it is not leaving";
  all.at(kBase)->is_leaving = true;
  ASSERT_TRUE(all.revive(&next));
  EXPECT_EQ(all.at(kBase)->bytes, 3 * kPieceBlockBytes + 1000);
  EXPECT_NE(all.at(kBase)->number, large.number);
  EXPECT_EQ(all.blocks().at(kBase)->used_bytes, 3 * kPieceBlockBytes + 1024);
}

TEST(Allocations, OneEmptyBlockForSmallOnesStays) {
  Allocations all;
  ASSERT_TRUE(all.add_block(block_at(kBase, kPieceBlockBytes), true));
  Allocation first = wanted(kPieceBlockBytes - 512);
  Allocation second = wanted(kPieceBlockBytes - 512);
  ASSERT_TRUE(all.place_small(&first));
  EXPECT_FALSE(all.place_small(&second));
  ASSERT_TRUE(all.add_block(block_at(kBase + kPieceBlockBytes, kPieceBlockBytes), true));
  ASSERT_TRUE(all.place_small(&second));
  Block gone;
  EXPECT_TRUE(all.remove(all.at(first.base), &gone));
  EXPECT_EQ(gone.base, kBase);
  EXPECT_FALSE(all.remove(all.at(second.base), &gone));
  EXPECT_EQ(all.blocks().size(), 1u);
  EXPECT_TRUE(all.remove_empty_block(&gone)) << "until it is asked for";
  EXPECT_FALSE(all.remove_empty_block(&gone));
}

TEST(Allocations, AnOwnerGoesWithAllThatItHas) {
  Allocations all;
  const Owner other{&other_context, 0};
  ASSERT_TRUE(all.add_block(block_at(kBase, kPieceBlockBytes), true));
  ASSERT_TRUE(all.add_block(block_at(kBase + kPieceBlockBytes, kPieceBlockBytes, other), true));
  Allocation mine = wanted(100);
  Allocation also_mine = wanted(100);
  Allocation theirs = wanted(100, other);
  ASSERT_TRUE(all.place_small(&mine));
  ASSERT_TRUE(all.place_small(&also_mine));
  ASSERT_TRUE(all.place_small(&theirs));
  Block gone;
  EXPECT_TRUE(all.remove_block_of(kOwner, &gone));
  EXPECT_EQ(gone.base, kBase);
  EXPECT_FALSE(all.remove_block_of(kOwner, &gone));
  EXPECT_EQ(all.all().size(), 1u);
  EXPECT_NE(all.at(theirs.base), nullptr);
}

}  // namespace
}  // namespace lambent::device_memory
