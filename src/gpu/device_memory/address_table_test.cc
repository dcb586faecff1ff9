#include "gpu/device_memory/address_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace lambent::device_memory {
namespace {

struct Range {
  uint64_t base;
  uint64_t bytes;
};

TEST(AddressTable, FindsARecordByItsBeginningAndByWhatLiesInIt) {
  AddressTable<Range> table;
  ASSERT_TRUE(table.insert({100, 10}));
  ASSERT_TRUE(table.insert({50, 20}));
  EXPECT_EQ(table.at(100)->bytes, 10u);
  EXPECT_EQ(table.at(101), nullptr);
  EXPECT_EQ(table.containing(109)->base, 100u);
  EXPECT_EQ(table.containing(110), nullptr);
  EXPECT_EQ(table.containing(49), nullptr);
  EXPECT_EQ(table.ending_at(70)->base, 50u);
  EXPECT_EQ(table.ending_at(69), nullptr);
}

TEST(AddressTable, RefusesWhatOverlaps) {
  AddressTable<Range> table;
  ASSERT_TRUE(table.insert({100, 10}));
  EXPECT_FALSE(table.insert({100, 1}));
  EXPECT_FALSE(table.insert({109, 5}));
  EXPECT_FALSE(table.insert({95, 6}));
  EXPECT_TRUE(table.insert({110, 5}));
  EXPECT_TRUE(table.insert({95, 5}));
  EXPECT_EQ(table.size(), 3u);
}

TEST(AddressTable, AgreesWithAnOrderedMapOverManyRandomSteps) {
  std::mt19937 random(7);
  AddressTable<Range> table;
  std::map<uint64_t, uint64_t> expected;
  for (int step = 0; step < 20000; ++step) {
    const uint64_t base = random() % 1000 * 16;
    if (random() % 2 == 0) {
      EXPECT_EQ(table.insert({base, 16}), expected.emplace(base, 16).second);
    } else if (Range* found = table.at(base); found != nullptr) {
      EXPECT_EQ(expected.erase(base), 1u);
      table.remove(found);
    } else {
      EXPECT_EQ(expected.count(base), 0u);
    }
  }
  ASSERT_EQ(table.size(), expected.size());
  auto next = expected.begin();
  for (const Range& range : table) EXPECT_EQ(range.base, (next++)->first);
}

}  // namespace
}  // namespace lambent::device_memory
