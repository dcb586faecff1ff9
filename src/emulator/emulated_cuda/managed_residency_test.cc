#include "emulator/emulated_cuda/managed_residency.h"

#include <gtest/gtest.h>

namespace lambent::emulated_cuda {
namespace {

constexpr uint64_t kBlock = kManagedResidencyBlockBytes;
constexpr uintptr_t kBase = 0x10000000;

class ManagedResidencyTest : public testing::Test {
 protected:
  ManagedResidencyTest() { managed_residency.add(kBase, 4 * kBlock); }
  uint64_t moved(const Traffic& traffic, int from, int to) {
    for (const Movement& movement : traffic.movements) {
      if (movement.from == from && movement.to == to) return movement.bytes;
    }
    return 0;
  }

  uint64_t room[2] = {100 * kBlock, 100 * kBlock};
  ManagedResidency managed_residency{
      {[this](int device, uint64_t bytes) {
         if (room[device] < bytes) return false;
         room[device] -= bytes;
         return true;
       },
       [this](int device, uint64_t bytes) { room[device] += bytes; }}};
};

TEST_F(ManagedResidencyTest, FirstTouchPopulatesAndCarriesNothing) {
  Traffic traffic = managed_residency.touch(kBase, 4 * kBlock, 0, true);
  EXPECT_EQ(traffic.faults, 4u);
  EXPECT_TRUE(traffic.movements.empty());
  EXPECT_EQ(managed_residency.place_of(kBase), 0);
  EXPECT_EQ(room[0], 96 * kBlock);
  managed_residency.remove(kBase);
  EXPECT_EQ(room[0], 100 * kBlock);
}

TEST_F(ManagedResidencyTest, WhatWasUsedLongestAgoLeavesFirst) {
  managed_residency.touch(kBase, kBlock, 0, true);
  managed_residency.touch(kBase + kBlock, kBlock, 0, true);
  managed_residency.touch(kBase, kBlock, 0, false);
  Traffic traffic;
  EXPECT_TRUE(managed_residency.release(0, traffic));
  EXPECT_EQ(managed_residency.place_of(kBase + kBlock), kHostPlace);
  EXPECT_EQ(managed_residency.place_of(kBase), 0);
  EXPECT_EQ(moved(traffic, 0, kHostPlace), kBlock);
  EXPECT_TRUE(managed_residency.release(0, traffic));
  EXPECT_FALSE(managed_residency.release(0, traffic));
  EXPECT_EQ(room[0], 100 * kBlock);
}

TEST_F(ManagedResidencyTest, BlocksMigrateToWhoTouchesThem) {
  managed_residency.touch(kBase, 4 * kBlock, kHostPlace, true);
  Traffic there = managed_residency.touch(kBase + kBlock, kBlock + 1, 0, false);
  EXPECT_EQ(there.faults, 2u);
  EXPECT_EQ(moved(there, kHostPlace, 0), 2 * kBlock);
  EXPECT_EQ(managed_residency.touch(kBase + kBlock, 1, 0, true).faults, 0u);
  Traffic back = managed_residency.touch(kBase, 4 * kBlock, kHostPlace, false);
  EXPECT_EQ(moved(back, 0, kHostPlace), 2 * kBlock);
  EXPECT_EQ(room[0], 100 * kBlock);
  Traffic across = managed_residency.touch(kBase, kBlock, 0, true);
  across = managed_residency.touch(kBase, kBlock, 1, true);
  EXPECT_EQ(moved(across, 0, 1), kBlock);
}

TEST_F(ManagedResidencyTest, WhatIsMostlyReadIsDuplicatedUntilSomebodyWrites) {
  managed_residency.touch(kBase, kBlock, kHostPlace, true);
  managed_residency.advise(kBase, kBlock, [](Advice& advice) { advice.read_mostly = true; });
  EXPECT_EQ(moved(managed_residency.touch(kBase, kBlock, 0, false), kHostPlace, 0), kBlock);
  managed_residency.touch(kBase, kBlock, 1, false);
  EXPECT_EQ(managed_residency.touch(kBase, kBlock, kHostPlace, false).faults, 0u);
  EXPECT_EQ(room[0] + room[1], 198 * kBlock);
  managed_residency.touch(kBase, kBlock, 1, true);
  EXPECT_EQ(room[0], 100 * kBlock);
  EXPECT_EQ(managed_residency.place_of(kBase), 1);
  EXPECT_EQ(moved(managed_residency.touch(kBase, kBlock, 0, false), 1, 0), kBlock);
}

TEST_F(ManagedResidencyTest, AdviceKeepsBlocksWhereTheyAre) {
  managed_residency.touch(kBase, 2 * kBlock, kHostPlace, true);
  managed_residency.advise(kBase, kBlock, [](Advice& advice) { advice.preferred = kHostPlace; });
  managed_residency.advise(kBase + kBlock, kBlock, [](Advice& advice) { advice.accessed_by |= 1; });
  Traffic traffic = managed_residency.touch(kBase, 2 * kBlock, 0, true);
  EXPECT_EQ(traffic.faults, 0u);
  EXPECT_EQ(traffic.remote_bytes, 2 * kBlock);
  EXPECT_EQ(managed_residency.place_of(kBase), kHostPlace);
  EXPECT_EQ(managed_residency.advice(kBase, 2 * kBlock).preferred, kNoPlace);
  EXPECT_EQ(managed_residency.advice(kBase + kBlock, kBlock).accessed_by, 1u);
}

TEST_F(ManagedResidencyTest, AFullDeviceLetsGoOfWhatWasUsedLongestAgo) {
  room[0] = 2 * kBlock;
  managed_residency.touch(kBase, kBlock, 0, true);
  managed_residency.touch(kBase + kBlock, kBlock, 0, true);
  managed_residency.touch(kBase, 1, 0, false);
  Traffic traffic = managed_residency.touch(kBase + 2 * kBlock, kBlock, 0, true);
  EXPECT_EQ(moved(traffic, 0, kHostPlace), kBlock);
  EXPECT_EQ(managed_residency.place_of(kBase), 0);
  EXPECT_EQ(managed_residency.place_of(kBase + kBlock), kHostPlace);
  EXPECT_EQ(room[0], 0u);
  room[0] = 0;
  managed_residency.remove(kBase);
  managed_residency.add(kBase, kBlock);
  room[0] = 0;
  EXPECT_EQ(managed_residency.touch(kBase, kBlock, 0, true).remote_bytes, kBlock);
  EXPECT_EQ(managed_residency.place_of(kBase), kHostPlace);
}

TEST_F(ManagedResidencyTest, DiscardedBlocksMoveWithoutTheirBytes) {
  managed_residency.touch(kBase, 2 * kBlock, 0, true);
  managed_residency.discard(kBase, kBlock);
  Traffic traffic = managed_residency.prefetch(kBase, 2 * kBlock, kHostPlace);
  EXPECT_EQ(moved(traffic, 0, kHostPlace), kBlock);
  EXPECT_EQ(managed_residency.advice(kBase, 2 * kBlock).prefetched, kHostPlace);
  managed_residency.touch(kBase, kBlock, kHostPlace, true);
  EXPECT_EQ(moved(managed_residency.prefetch(kBase, 1, 1), kHostPlace, 1), kBlock);
}

TEST_F(ManagedResidencyTest, RangesEndWhereTheyEnd) {
  EXPECT_TRUE(managed_residency.covers(kBase, 4 * kBlock));
  EXPECT_FALSE(managed_residency.covers(kBase + 1, 4 * kBlock));
  EXPECT_FALSE(managed_residency.covers(kBase - 1, 1));
  EXPECT_FALSE(managed_residency.covers(kBase + 4 * kBlock, 0));
}

}  // namespace
}  // namespace lambent::emulated_cuda
