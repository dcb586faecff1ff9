#include "emulator/emulated_cuda/pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "emulator/emulated_node/node.h"

namespace lambent::emulated_cuda {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class PoolTest : public testing::Test {
 protected:
  std::unique_ptr<Pool> make(double scale = 1, CUmemPoolProps properties = {}) {
    PoolSource source;
    source.count = [this](size_t bytes) {
      if (counted + bytes > capacity) return false;
      counted += bytes;
      return true;
    };
    source.uncount = [this](size_t bytes) { counted -= bytes; };
    source.memory_scale = scale;
    return std::make_unique<Pool>(source, std::make_shared<Backing>(), properties, 0);
  }
  void free(Pool& pool, uintptr_t address, uint64_t stream, CompletionPtr end) {
    ASSERT_TRUE(pool.begin_free(address));
    pool.end_free(address, stream, std::move(end));
  }
  static CompletionPtr pending() { return std::make_shared<Completion>(); }
  // Completing needs a clock, though no thread waits here.
  void reach(const CompletionPtr& end) {
    std::string error, path = testing::TempDir() + "/pool_test.node";
    unlink(path.c_str());
    auto node = emulated_node::Node::open(path, "tiny", &error);
    ASSERT_TRUE(node) << error;
    ClockHolds holds(*node);
    end->complete(5, holds);
    unlink(path.c_str());
  }

  size_t capacity = 256 * kMiB, counted = 0;
};

TEST_F(PoolTest, AStreamFindsWhatItFreedAtOnceAndOthersWhenTheFreeIsReached) {
  auto pool = make();
  uintptr_t a = pool->allocate(kMiB, 1, nullptr)->address;
  CompletionPtr end = pending();
  free(*pool, a, 1, end);
  uintptr_t other = pool->allocate(kMiB, 2, nullptr)->address;
  EXPECT_NE(other, a);
  auto again = pool->allocate(kMiB, 1, nullptr);
  EXPECT_EQ(again->address, a);
  EXPECT_FALSE(again->after);
  free(*pool, a, 1, end);
  reach(end);
  auto others = pool->allocate(kMiB, 2, nullptr);
  EXPECT_EQ(others->address, a);
  EXPECT_FALSE(others->after);
}

TEST_F(PoolTest, WithoutOtherMemoryAnAllocationIsPutBehindAFree) {
  capacity = 32 * kMiB;
  auto pool = make();
  uintptr_t a = pool->allocate(32 * kMiB, 1, nullptr)->address;
  CompletionPtr end = pending();
  free(*pool, a, 1, end);
  auto taken = pool->allocate(8 * kMiB, 2, nullptr);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->address, a);
  EXPECT_EQ(taken->after, end);
  pool->allow_internal_dependencies = false;
  EXPECT_FALSE(pool->allocate(8 * kMiB, 3, nullptr));
  EXPECT_TRUE(pool->allocate(8 * kMiB, 1, nullptr));
}

TEST_F(PoolTest, WithoutLuckOthersWaitUntilTheHostHasSeenTheFree) {
  auto pool = make();
  pool->allow_opportunistic = false;
  pool->release_threshold_bytes = UINT64_MAX;
  uintptr_t a = pool->allocate(kMiB, 1, nullptr)->address;
  CompletionPtr end = pending();
  reach(end);
  free(*pool, a, 1, end);
  uintptr_t b = pool->allocate(kMiB, 2, nullptr)->address;
  EXPECT_NE(b, a);
  pool->observe();
  EXPECT_EQ(pool->allocate(kMiB, 2, nullptr)->address, a);
}

TEST_F(PoolTest, ReservedMemoryShrinksToTheThresholdWhenTheHostLooks) {
  auto pool = make();
  uintptr_t a = pool->allocate(100 * kMiB, 1, nullptr)->address;
  uintptr_t b = pool->allocate(kMiB, 1, nullptr)->address;
  EXPECT_EQ(pool->usage.reserved, 132 * kMiB);
  EXPECT_EQ(pool->usage.used, 101 * kMiB);
  free(*pool, a, 1, nullptr);
  EXPECT_EQ(counted, 132 * kMiB);
  pool->release_threshold_bytes = 132 * kMiB;
  pool->observe();
  EXPECT_EQ(counted, 132 * kMiB);
  pool->release_threshold_bytes = 0;
  pool->observe();
  EXPECT_EQ(counted, 32 * kMiB);
  free(*pool, b, 1, nullptr);
  pool->trim(32 * kMiB);
  EXPECT_EQ(counted, 32 * kMiB);
  pool->trim(0);
  EXPECT_EQ(counted, 0u);
  EXPECT_EQ(pool->usage.reserved_high, 132 * kMiB);
  EXPECT_EQ(pool->usage.used_high, 101 * kMiB);
  EXPECT_TRUE(pool->idle());
}

TEST_F(PoolTest, FreedNeighboursBecomeOneBlock) {
  auto pool = make();
  std::vector<uintptr_t> blocks;
  for (int i = 0; i < 32; i++) blocks.push_back(pool->allocate(kMiB, 1, nullptr)->address);
  for (int i : {0, 2, 1}) free(*pool, blocks[i], 1, nullptr);
  EXPECT_EQ(pool->allocate(3 * kMiB, 1, nullptr)->address, blocks[0]);
  EXPECT_EQ(pool->usage.reserved, 32 * kMiB);
}

TEST_F(PoolTest, SecondFreesAndForeignAddressesAreRefused) {
  auto pool = make();
  uintptr_t a = pool->allocate(100, 1, nullptr)->address;
  EXPECT_FALSE(pool->begin_free(a + 512));
  free(*pool, a, 1, pending());
  EXPECT_FALSE(pool->begin_free(a));
  EXPECT_FALSE(pool->allocate(SIZE_MAX, 1, nullptr));
}

TEST_F(PoolTest, APoolKeepsToItsGreatestSize) {
  CUmemPoolProps properties{};
  properties.maxSize = 10 * kMiB;
  auto pool = make(1, properties);
  EXPECT_TRUE(pool->allocate(6 * kMiB, 1, nullptr));
  EXPECT_FALSE(pool->allocate(6 * kMiB, 1, nullptr));
  EXPECT_EQ(pool->usage.reserved, 6 * kMiB);
}

TEST_F(PoolTest, LargeBlocksMayBeScaledAndSmallOnesKeepToWholeMemory) {
  auto pool = make(16);
  auto large = pool->allocate(64 * kMiB, 1, nullptr);
  EXPECT_EQ(large->backing_bytes, 4 * kMiB);
  free(*pool, large->address, 1, nullptr);
  auto small = pool->allocate(kMiB, 1, nullptr);
  EXPECT_EQ(small->backing_bytes, kMiB);
  EXPECT_FALSE(small->address >= large->address && small->address < large->address + 64 * kMiB);
}

TEST_F(PoolTest, WhatAContextHoldsGoesWithIt) {
  auto pool = make();
  int mine, other;
  uintptr_t a = pool->allocate(kMiB, 1, &mine)->address;
  pool->allocate(kMiB, 1, &other);
  EXPECT_EQ(pool->forget(&mine), std::vector<uintptr_t>{a});
  EXPECT_EQ(pool->usage.used, kMiB);
}

}  // namespace
}  // namespace lambent::emulated_cuda
