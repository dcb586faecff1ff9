#include "scheduling/ordered_items.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace lambent::scheduling {
namespace {

using Pairs = std::vector<std::pair<int, uint32_t>>;

Pairs walked(const OrderedItems<int>& items) {
  Pairs pairs;
  for (const auto& [key, item] : items) pairs.emplace_back(key, item);
  return pairs;
}

TEST(OrderedItems, AreWalkedByKeyAndOfEqualKeysTheLowerItemFirst) {
  OrderedItems<int> items;
  items.put(7, 2);
  items.put(3, 2);
  items.put(5, 9);
  EXPECT_EQ(walked(items), (Pairs{{2, 3}, {2, 7}, {9, 5}}));
  items.put(5, 1);
  items.erase(3);
  items.erase(3);
  items.erase(99);
  EXPECT_FALSE(items.contains(3));
  EXPECT_EQ(walked(items), (Pairs{{1, 5}, {2, 7}}));
  EXPECT_EQ(items.pop(), 5u);
  EXPECT_EQ(items.pop(), 7u);
  EXPECT_TRUE(items.empty());
  EXPECT_TRUE(walked(items).empty());
}

// Enough of them for many blocks, which split and run empty.
TEST(OrderedItems, BehaveAsASortedSetWhateverIsDoneToThem) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    OrderedItems<int> items;
    std::map<uint32_t, int> keys;
    std::set<std::pair<int, uint32_t>> expected;
    for (int step = 0; step < 20'000; ++step) {
      const auto item = static_cast<uint32_t>(random.below(900));
      if (const auto old = keys.find(item); old != keys.end()) {
        expected.erase({old->second, item});
        keys.erase(old);
      }
      // Fewer and fewer at the end.
      if (random.below(10) < (step < 10'000 ? 3U : 8U)) {
        items.erase(item);
      } else {
        const int key = static_cast<int>(random.below(100));
        items.put(item, key);
        keys[item] = key;
        expected.insert({key, item});
      }
      ASSERT_EQ(items.empty(), expected.empty());
      if (!expected.empty()) {
        ASSERT_EQ(items.top_key(), expected.begin()->first);
        ASSERT_EQ(items.top(), expected.begin()->second);
      }
      if (step % 100 == 0) {
        ASSERT_EQ(walked(items), Pairs(expected.begin(), expected.end()));
      }
    }
    const auto key_in = [](StateArchive& archive) {
      return [&archive](int& key) {
        auto number = static_cast<unsigned>(key);
        archive.field(number);
        key = static_cast<int>(number);
      };
    };
    std::string bytes;
    StateArchive writer(&bytes);
    items.archive(writer, key_in(writer));
    OrderedItems<int> restored;
    StateArchive reader{std::string_view(bytes)};
    restored.archive(reader, key_in(reader));
    ASSERT_TRUE(reader.complete());
    EXPECT_EQ(walked(restored), walked(items));
  }
}

}  // namespace
}  // namespace lambent::scheduling
