#include "emulator/emulated_cuda/residency.h"

#include <gtest/gtest.h>

namespace lambent::emulated_cuda {
namespace {

constexpr uint64_t kBlock = kResidencyBlockBytes;
constexpr uintptr_t kBase = 0x10000000;

class ResidencyTest : public testing::Test {
 protected:
  ResidencyTest() { residency.add(kBase, 4 * kBlock); }
  uint64_t moved(const Traffic& traffic, int from, int to) {
    for (const Movement& movement : traffic.movements) {
      if (movement.from == from && movement.to == to) return movement.bytes;
    }
    return 0;
  }

  uint64_t room[2] = {100 * kBlock, 100 * kBlock};
  Residency residency{{[this](int device, uint64_t bytes) {
                         if (room[device] < bytes) return false;
                         room[device] -= bytes;
                         return true;
                       },
                       [this](int device, uint64_t bytes) { room[device] += bytes; }}};
};

TEST_F(ResidencyTest, FirstTouchPopulatesAndCarriesNothing) {
  Traffic traffic = residency.touch(kBase, 4 * kBlock, 0, true);
  EXPECT_EQ(traffic.faults, 4u);
  EXPECT_TRUE(traffic.movements.empty());
  EXPECT_EQ(residency.place_of(kBase), 0);
  EXPECT_EQ(room[0], 96 * kBlock);
  residency.remove(kBase);
  EXPECT_EQ(room[0], 100 * kBlock);
}

TEST_F(ResidencyTest, WhatWasUsedLongestAgoLeavesFirst) {
  residency.touch(kBase, kBlock, 0, true);
  residency.touch(kBase + kBlock, kBlock, 0, true);
  residency.touch(kBase, kBlock, 0, false);
  Traffic traffic;
  EXPECT_TRUE(residency.let_go(0, traffic));
  EXPECT_EQ(residency.place_of(kBase + kBlock), kHostPlace);
  EXPECT_EQ(residency.place_of(kBase), 0);
  EXPECT_EQ(moved(traffic, 0, kHostPlace), kBlock);
  EXPECT_TRUE(residency.let_go(0, traffic));
  EXPECT_FALSE(residency.let_go(0, traffic));
  EXPECT_EQ(room[0], 100 * kBlock);
}

TEST_F(ResidencyTest, BlocksMigrateToWhoTouchesThem) {
  residency.touch(kBase, 4 * kBlock, kHostPlace, true);
  Traffic there = residency.touch(kBase + kBlock, kBlock + 1, 0, false);
  EXPECT_EQ(there.faults, 2u);
  EXPECT_EQ(moved(there, kHostPlace, 0), 2 * kBlock);
  EXPECT_EQ(residency.touch(kBase + kBlock, 1, 0, true).faults, 0u);
  Traffic back = residency.touch(kBase, 4 * kBlock, kHostPlace, false);
  EXPECT_EQ(moved(back, 0, kHostPlace), 2 * kBlock);
  EXPECT_EQ(room[0], 100 * kBlock);
  Traffic across = residency.touch(kBase, kBlock, 0, true);
  across = residency.touch(kBase, kBlock, 1, true);
  EXPECT_EQ(moved(across, 0, 1), kBlock);
}

TEST_F(ResidencyTest, WhatIsMostlyReadIsDuplicatedUntilSomebodyWrites) {
  residency.touch(kBase, kBlock, kHostPlace, true);
  residency.advise(kBase, kBlock, [](Advice& advice) { advice.read_mostly = true; });
  EXPECT_EQ(moved(residency.touch(kBase, kBlock, 0, false), kHostPlace, 0), kBlock);
  residency.touch(kBase, kBlock, 1, false);
  EXPECT_EQ(residency.touch(kBase, kBlock, kHostPlace, false).faults, 0u);
  EXPECT_EQ(room[0] + room[1], 198 * kBlock);
  residency.touch(kBase, kBlock, 1, true);
  EXPECT_EQ(room[0], 100 * kBlock);
  EXPECT_EQ(residency.place_of(kBase), 1);
  EXPECT_EQ(moved(residency.touch(kBase, kBlock, 0, false), 1, 0), kBlock);
}

TEST_F(ResidencyTest, AdviceKeepsBlocksWhereTheyAre) {
  residency.touch(kBase, 2 * kBlock, kHostPlace, true);
  residency.advise(kBase, kBlock, [](Advice& advice) { advice.preferred = kHostPlace; });
  residency.advise(kBase + kBlock, kBlock, [](Advice& advice) { advice.accessed_by |= 1; });
  Traffic traffic = residency.touch(kBase, 2 * kBlock, 0, true);
  EXPECT_EQ(traffic.faults, 0u);
  EXPECT_EQ(traffic.remote_bytes, 2 * kBlock);
  EXPECT_EQ(residency.place_of(kBase), kHostPlace);
  EXPECT_EQ(residency.advice(kBase, 2 * kBlock).preferred, kNoPlace);
  EXPECT_EQ(residency.advice(kBase + kBlock, kBlock).accessed_by, 1u);
}

TEST_F(ResidencyTest, AFullDeviceLetsGoOfWhatWasUsedLongestAgo) {
  room[0] = 2 * kBlock;
  residency.touch(kBase, kBlock, 0, true);
  residency.touch(kBase + kBlock, kBlock, 0, true);
  residency.touch(kBase, 1, 0, false);
  Traffic traffic = residency.touch(kBase + 2 * kBlock, kBlock, 0, true);
  EXPECT_EQ(moved(traffic, 0, kHostPlace), kBlock);
  EXPECT_EQ(residency.place_of(kBase), 0);
  EXPECT_EQ(residency.place_of(kBase + kBlock), kHostPlace);
  EXPECT_EQ(room[0], 0u);
  room[0] = 0;
  residency.remove(kBase);
  residency.add(kBase, kBlock);
  room[0] = 0;
  EXPECT_EQ(residency.touch(kBase, kBlock, 0, true).remote_bytes, kBlock);
  EXPECT_EQ(residency.place_of(kBase), kHostPlace);
}

TEST_F(ResidencyTest, DiscardedBlocksMoveWithoutTheirBytes) {
  residency.touch(kBase, 2 * kBlock, 0, true);
  residency.discard(kBase, kBlock);
  Traffic traffic = residency.prefetch(kBase, 2 * kBlock, kHostPlace);
  EXPECT_EQ(moved(traffic, 0, kHostPlace), kBlock);
  EXPECT_EQ(residency.advice(kBase, 2 * kBlock).prefetched, kHostPlace);
  residency.touch(kBase, kBlock, kHostPlace, true);
  EXPECT_EQ(moved(residency.prefetch(kBase, 1, 1), kHostPlace, 1), kBlock);
}

TEST_F(ResidencyTest, RangesEndWhereTheyEnd) {
  EXPECT_TRUE(residency.covers(kBase, 4 * kBlock));
  EXPECT_FALSE(residency.covers(kBase + 1, 4 * kBlock));
  EXPECT_FALSE(residency.covers(kBase - 1, 1));
  EXPECT_FALSE(residency.covers(kBase + 4 * kBlock, 0));
}

}  // namespace
}  // namespace lambent::emulated_cuda
