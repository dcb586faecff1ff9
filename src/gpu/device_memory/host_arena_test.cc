#include "gpu/device_memory/host_arena.h"

#include <gtest/gtest.h>

namespace lambent::device_memory {
namespace {

TEST(HostArena, LaysOneRowOfBytesOverItsSegments) {
  char first[10];
  char second[20];
  HostArena arena;
  EXPECT_EQ(arena.piece(0, 5).bytes, 0u);
  ASSERT_TRUE(arena.add_segment(first, sizeof first));
  ASSERT_TRUE(arena.add_segment(second, sizeof second));
  EXPECT_EQ(arena.bytes(), 30u);
  EXPECT_EQ(arena.piece(0, 5).begin, first);
  EXPECT_EQ(arena.piece(0, 5).bytes, 5u);
  EXPECT_EQ(arena.piece(8, 5).begin, first + 8);
  EXPECT_EQ(arena.piece(8, 5).bytes, 2u) << "as far as the segment reaches";
  EXPECT_EQ(arena.piece(10, 50).begin, second);
  EXPECT_EQ(arena.piece(10, 50).bytes, 20u);
  EXPECT_EQ(arena.piece(30, 1).bytes, 0u);
}

}  // namespace
}  // namespace lambent::device_memory
