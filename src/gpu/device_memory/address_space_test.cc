#include "gpu/device_memory/address_space.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace lambent::device_memory {
namespace {

TEST(AddressSpace, PutsWhatIsTakenOneAfterTheOtherSideBySide) {
  AddressSpace space;
  ASSERT_TRUE(space.add_region(1000, 100));
  EXPECT_EQ(space.take(10), 1000u);
  EXPECT_EQ(space.take(20), 1010u);
  EXPECT_EQ(space.take(71), 0u);
  EXPECT_EQ(space.take(70), 1030u);
  EXPECT_EQ(space.free_bytes(), 0u);
}

TEST(AddressSpace, WhatIsGivenBackGrowsTogetherAgain) {
  AddressSpace space;
  ASSERT_TRUE(space.add_region(1000, 30));
  ASSERT_EQ(space.take(10), 1000u);
  ASSERT_EQ(space.take(10), 1010u);
  ASSERT_EQ(space.take(10), 1020u);
  space.give_back(1000, 10);
  space.give_back(1020, 10);
  EXPECT_EQ(space.take(30), 0u);
  space.give_back(1010, 10);
  EXPECT_EQ(space.take(30), 1000u);
}

TEST(AddressSpace, NothingSpansTwoRegionsEvenIfTheyAdjoin) {
  AddressSpace space;
  ASSERT_TRUE(space.add_region(1000, 10));
  ASSERT_TRUE(space.add_region(1010, 10));
  ASSERT_EQ(space.take(10), 1000u);
  ASSERT_EQ(space.take(10), 1010u);
  space.give_back(1010, 10);
  space.give_back(1000, 10);
  EXPECT_EQ(space.take(20), 0u);
  EXPECT_EQ(space.take(10), 1000u);
}

TEST(AddressSpace, ForeignAddressesAndEmptyRangesChangeNothing) {
  AddressSpace space;
  ASSERT_TRUE(space.add_region(1000, 10));
  space.give_back(5, 5);
  EXPECT_EQ(space.take(0), 0u);
  EXPECT_EQ(space.free_bytes(), 10u);
  EXPECT_TRUE(space.is_reserved(1009));
  EXPECT_FALSE(space.is_reserved(1010));
}

TEST(AddressSpace, LosesNothingOverManyRandomSteps) {
  std::mt19937 random(11);
  AddressSpace space;
  ASSERT_TRUE(space.add_region(1 << 20, 1 << 16));
  std::vector<AddressRange> taken;
  uint64_t held = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0) {
      const uint64_t bytes = 1 + random() % 2000;
      const uint64_t base = space.take(bytes);
      if (base == 0) continue;
      for (const AddressRange& other : taken) {
        ASSERT_TRUE(base + bytes <= other.base || other.base + other.bytes <= base);
      }
      taken.push_back({base, bytes});
      held += bytes;
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      space.give_back(taken.back().base, taken.back().bytes);
      held -= taken.back().bytes;
      taken.pop_back();
    }
    ASSERT_EQ(space.free_bytes() + held, 1u << 16);
  }
  for (const AddressRange& range : taken) space.give_back(range.base, range.bytes);
  EXPECT_EQ(space.take(1 << 16), 1u << 20) << "one piece again";
}

}  // namespace
}  // namespace lambent::device_memory
