#include "gpu/device_memory/piece_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace lambent::device_memory {
namespace {

TEST(PieceMap, RoundsUpToWholePieces) {
  PieceMap map;
  EXPECT_EQ(map.take(1), 0u);
  EXPECT_EQ(map.take(513), 512u);
  EXPECT_EQ(map.take(512), 1536u);
  EXPECT_EQ(map.free_bytes(), kPieceBlockBytes - 2048);
}

TEST(PieceMap, AFullBlockSaysSoUntilSomethingIsGivenBack) {
  PieceMap map;
  EXPECT_EQ(map.take(kPieceBlockBytes + 1), PieceMap::kNone);
  EXPECT_EQ(map.take(0), PieceMap::kNone);
  ASSERT_EQ(map.take(kPieceBlockBytes), 0u);
  EXPECT_EQ(map.take(1), PieceMap::kNone);
  map.give_back(0);
  EXPECT_TRUE(map.is_empty());
  EXPECT_EQ(map.take(kPieceBlockBytes), 0u);
}

TEST(PieceMap, NeighboursThatAreGivenBackGrowTogether) {
  PieceMap map;
  const uint64_t half = kPieceBlockBytes / 2;
  ASSERT_EQ(map.take(half), 0u);
  ASSERT_EQ(map.take(half), half);
  map.give_back(static_cast<uint32_t>(half));
  EXPECT_EQ(map.take(kPieceBlockBytes), PieceMap::kNone);
  map.give_back(0);
  EXPECT_EQ(map.take(kPieceBlockBytes), 0u);
}

TEST(PieceMap, PiecesNeverOverlapOverManyRandomSteps) {
  std::mt19937 random(3);
  const auto map = std::make_unique<PieceMap>();
  std::vector<char> taken(kPieceBlockBytes / kPieceBytes);
  std::vector<std::pair<uint32_t, uint32_t>> pieces;
  uint64_t units_taken = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 5 < 3) {
      const uint32_t units = 1 + random() % 200;
      const uint32_t offset = map->take(units * kPieceBytes - random() % kPieceBytes);
      if (offset == PieceMap::kNone) continue;
      for (uint32_t i = 0; i < units; ++i) {
        ASSERT_EQ(taken[offset / kPieceBytes + i], 0);
        taken[offset / kPieceBytes + i] = 1;
      }
      pieces.push_back({offset, units});
      units_taken += units;
    } else if (!pieces.empty()) {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      const auto [offset, units] = pieces.back();
      pieces.pop_back();
      for (uint32_t i = 0; i < units; ++i) taken[offset / kPieceBytes + i] = 0;
      map->give_back(offset);
      units_taken -= units;
    }
    ASSERT_EQ(map->free_bytes(), kPieceBlockBytes - units_taken * kPieceBytes);
  }
}

}  // namespace
}  // namespace lambent::device_memory
