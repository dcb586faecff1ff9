#include "scheduling/heap_walk.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace lambent::scheduling {
namespace {

std::vector<uint32_t> walked(HeapWalk<int>& walk, const IndexedHeap<int>& heap) {
  std::vector<uint32_t> items;
  for (walk.begin(heap); !walk.done(); walk.next()) items.push_back(walk.item());
  return items;
}

TEST(HeapWalk, VisitsByKeyAndOfEqualKeysTheLowerItemFirst) {
  IndexedHeap<int> heap;
  HeapWalk<int> walk;
  EXPECT_TRUE(walked(walk, heap).empty());
  heap.put(7, 2);
  EXPECT_EQ(walked(walk, heap), (std::vector<uint32_t>{7}));
  heap.put(3, 2);
  heap.put(5, 9);
  heap.put(4, 2);
  EXPECT_EQ(walked(walk, heap), (std::vector<uint32_t>{3, 4, 7, 5}));
  EXPECT_EQ(walked(walk, heap), (std::vector<uint32_t>{3, 4, 7, 5}));
  heap.erase(3);
  EXPECT_EQ(walked(walk, heap), (std::vector<uint32_t>{4, 7, 5}));
}

TEST(HeapWalk, VisitsAllInOrderWhateverWasDoneToTheHeap) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    IndexedHeap<int> heap;
    HeapWalk<int> walk;
    std::map<uint32_t, int> keys;
    for (int step = 0; step < 10'000; ++step) {
      const auto item = static_cast<uint32_t>(random.below(900));
      // Fewer and fewer at the end.
      if (random.below(10) < (step < 5'000 ? 3U : 8U)) {
        heap.erase(item);
        keys.erase(item);
      } else {
        keys[item] = static_cast<int>(random.below(100));
        heap.put(item, keys[item]);
      }
      if (step % 97 != 0) continue;
      std::set<std::pair<int, uint32_t>> sorted;
      for (const auto& [one, key] : keys) sorted.emplace(key, one);
      std::vector<uint32_t> expected;
      for (const auto& [key, one] : sorted) expected.push_back(one);
      ASSERT_EQ(walked(walk, heap), expected);
    }
  }
}

}  // namespace
}  // namespace lambent::scheduling
