#include "decide/scheduling/waiting_order.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/random.h"

namespace lambent::scheduling {
namespace {

using Because = NoPlace::Because;

std::vector<uint32_t> walked(WaitingOrder<int>& order) {
  std::vector<uint32_t> items;
  for (order.begin(); !order.done(); order.next()) items.push_back(order.item());
  return items;
}

// Notes that this one has no place.
void note(WaitingOrder<int>& order, uint32_t item, const NoPlace& what) {
  order.begin();
  while (order.item() != item) order.next();
  order.take_note(what);
}

TEST(WaitingOrder, VisitsByKeyAndOfEqualKeysTheLowerItemFirst) {
  WaitingOrder<int> order;
  EXPECT_TRUE(walked(order).empty());
  order.put(7, 2);
  EXPECT_EQ(walked(order), (std::vector<uint32_t>{7}));
  order.put(3, 2);
  order.put(5, 9);
  order.put(4, 2);
  EXPECT_EQ(walked(order), (std::vector<uint32_t>{3, 4, 7, 5}));
  order.erase(3);
  order.put(5, 1);
  EXPECT_EQ(walked(order), (std::vector<uint32_t>{5, 4, 7}));
  EXPECT_EQ(order.pop(), 5u);
  EXPECT_EQ(order.top(), 4u);
  EXPECT_EQ(order.top_key(), 2);
}

TEST(WaitingOrder, KeepsANoteUntilTheItemIsPutAnewOrTheNoteIsForgotten) {
  WaitingOrder<int> order;
  order.put(1, 10);
  order.put(2, 20);
  note(order, 2, {.because = Because::kAtWork});
  order.begin();
  order.next();
  EXPECT_EQ(order.note().because, Because::kAtWork);
  order.forget(2, [](const NoPlace& what) { return what.because == Because::kWarm; });
  EXPECT_EQ(order.noted().size(), 2u);
  order.forget(2);
  EXPECT_EQ(order.noted().size(), 1u) << "it is to be asked again";
  note(order, 2, {.because = Because::kAtWork});
  order.put(2, 20);
  EXPECT_EQ(order.noted().size(), 1u) << "something about it has changed";
  EXPECT_EQ(walked(order), (std::vector<uint32_t>{1, 2}));
}

TEST(WaitingOrder, SkipsThoseNotedUpToTheFirstThatIsNotAndTellsTheEarliestInstantOfThem) {
  WaitingOrder<int> order;
  for (uint32_t item = 1; item <= 3; ++item) order.put(item, static_cast<int>(10 * item));
  note(order, 1, {.because = Because::kAtWork, .then = Instant{} + seconds(9)});
  note(order, 2, {.because = Because::kWarm, .memory = Bytes(5), .then = Instant{} + seconds(5)});
  note(order, 3, {.because = Because::kWarm, .then = Instant{} + seconds(1)});
  EXPECT_EQ(order.skip_noted(), Instant{} + seconds(1));
  EXPECT_TRUE(order.done());
  order.put(4, 25);
  EXPECT_EQ(order.skip_noted(), Instant{} + seconds(5));
  ASSERT_FALSE(order.done());
  EXPECT_EQ(order.item(), 4u);
  EXPECT_EQ(order.noted_before(), 2u);
  EXPECT_EQ(order.noted().at_work_before_others(), 1u);
  EXPECT_EQ(order.noted().most_memory(), Bytes(5));
  order.forget_until(Instant{} + seconds(5));
  EXPECT_EQ(order.noted().size(), 1u) << "for two it is time";
  EXPECT_EQ(order.skip_noted(), Instant{} + seconds(9)) << "of the one that comes before";
  EXPECT_EQ(order.item(), 2u);
  EXPECT_EQ(order.noted().find_most_memory(), Bytes(0));
}

TEST(WaitingOrder, VisitsAllInOrderWhateverWasDoneAndNotedBefore) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    WaitingOrder<int> order;
    std::map<uint32_t, int> keys;
    for (int step = 0; step < 5'000; ++step) {
      const auto item = static_cast<uint32_t>(random.below(200));
      // Fewer and fewer at the end.
      if (random.below(10) < (step < 2'500 ? 3U : 8U)) {
        order.erase(item);
        keys.erase(item);
      } else if (random.below(3) == 0) {
        order.forget(item);
      } else {
        keys[item] = static_cast<int>(random.below(50));
        order.put(item, keys[item]);
      }
      ASSERT_EQ(order.size(), keys.size());
      ASSERT_EQ(order.contains(item), keys.contains(item));
      std::set<std::pair<int, uint32_t>> sorted;
      for (const auto& [one, key] : keys) sorted.emplace(key, one);
      ASSERT_TRUE(sorted.empty() || order.top() == sorted.begin()->second);
      if (step % 37 == 0) order.forget_until(Instant{} + seconds(random.below(9)));
      if (step % 7 != 0) continue;
      // A walk to somewhere, with a note now and then.
      size_t left = random.below(sorted.size() + 1);
      auto expected = sorted.begin();
      for (order.begin(); left-- > 0; order.next()) {
        ASSERT_FALSE(order.done());
        ASSERT_EQ(order.item(), (expected++)->second);
        if (random.below(2) == 0) order.take_note({.then = Instant{} + seconds(random.below(9))});
      }
      ASSERT_EQ(order.done(), expected == sorted.end());
    }
  }
}

}  // namespace
}  // namespace lambent::scheduling
