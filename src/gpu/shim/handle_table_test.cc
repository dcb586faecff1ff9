#include "gpu/shim/handle_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace lambent::shim {
namespace {

Entry entry_of(uint64_t key, uint64_t bytes) {
  Entry entry;
  entry.key = key;
  entry.kind = Kind::kDevice;
  entry.bytes = bytes;
  return entry;
}

TEST(HandleTable, KeepsKindsApart) {
  HandleTable table;
  ASSERT_TRUE(table.insert(entry_of(7, 100)));
  EXPECT_EQ(table.find(Kind::kArray, 7), nullptr);
  EXPECT_EQ(table.remove(Kind::kHost, 7).kind, Kind::kNone);
  EXPECT_EQ(table.find(Kind::kDevice, 7)->bytes, 100u);
}

TEST(HandleTable, AnEmptyOneKnowsNothing) {
  HandleTable table;
  EXPECT_EQ(table.find(Kind::kDevice, 1), nullptr);
  EXPECT_EQ(table.remove(Kind::kDevice, 1).kind, Kind::kNone);
}

TEST(HandleTable, AgreesWithAMapThroughManyRandomSteps) {
  HandleTable table;
  std::map<uint64_t, uint64_t> expected;
  std::mt19937_64 random(20261121);
  for (int step = 0; step < 200000; ++step) {
    const uint64_t key = random() % 3000 * 512;
    if (random() % 2 == 0) {
      ASSERT_TRUE(table.insert(entry_of(key, step + 1)));
      expected[key] = step + 1;
    } else {
      const Entry removed = table.remove(Kind::kDevice, key);
      const auto known = expected.find(key);
      ASSERT_EQ(removed.bytes, known == expected.end() ? 0 : known->second);
      if (known != expected.end()) expected.erase(known);
    }
    ASSERT_EQ(table.size(), expected.size());
  }
  for (const auto& [key, bytes] : expected) ASSERT_EQ(table.find(Kind::kDevice, key)->bytes, bytes);
}

TEST(HandleTable, RemovesAllThatAPredicateNamesAndNothingElse) {
  HandleTable table;
  for (uint64_t key = 0; key < 1000; ++key) ASSERT_TRUE(table.insert(entry_of(key * 4096, key)));
  uint64_t told = 0;
  table.remove_if([](const Entry& entry) { return entry.bytes % 3 == 0; },
                  [&told](const Entry&) { ++told; });
  EXPECT_EQ(told, 334u);
  EXPECT_EQ(table.size(), 666u);
  EXPECT_EQ(table.find_if([](const Entry& entry) { return entry.bytes % 3 == 0; }), nullptr);
}

}  // namespace
}  // namespace lambent::shim
