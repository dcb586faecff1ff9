#include "decide/scheduling/indexed_heap.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/base/random.h"

namespace lambent::scheduling {
namespace {

TEST(IndexedHeap, GivesTheLeastKeyAndOfEqualKeysTheLowerItem) {
  IndexedHeap<int> heap;
  heap.put(7, 2);
  heap.put(3, 2);
  heap.put(5, 9);
  EXPECT_EQ(heap.pop(), 3u);
  EXPECT_EQ(heap.pop(), 7u);
  EXPECT_EQ(heap.pop(), 5u);
  EXPECT_TRUE(heap.empty());
}

TEST(IndexedHeap, ForgetsAnItemThatIsErasedAndIgnoresOneThatWasNeverThere) {
  IndexedHeap<int> heap;
  heap.put(1, 1);
  heap.put(2, 2);
  heap.erase(1);
  heap.erase(1);
  heap.erase(99);
  EXPECT_FALSE(heap.contains(1));
  EXPECT_EQ(heap.top(), 2u);
}

TEST(IndexedHeap, BehavesAsASortedSetWhateverIsDoneToIt) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    IndexedHeap<int> heap;
    std::map<uint32_t, int> keys;
    std::set<std::pair<int, uint32_t>> order;
    for (int step = 0; step < 3000; ++step) {
      const auto item = static_cast<uint32_t>(random.below(100));
      if (keys.contains(item)) order.erase({keys[item], item});
      if (random.below(3) == 0) {
        keys.erase(item);
        heap.erase(item);
      } else {
        const int key = static_cast<int>(random.below(50));
        keys[item] = key;
        order.insert({key, item});
        heap.put(item, key);
      }
      ASSERT_EQ(heap.size(), order.size());
      if (order.empty()) continue;
      ASSERT_EQ(heap.top(), order.begin()->second);
      ASSERT_EQ(heap.top_key(), order.begin()->first);
    }
  }
}

}  // namespace
}  // namespace lambent::scheduling
