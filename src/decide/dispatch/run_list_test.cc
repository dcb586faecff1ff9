#include "decide/dispatch/run_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/base/random.h"

namespace lambent::dispatch {
namespace {

std::vector<InvocationSlot> all_of(const RunList& list) {
  std::vector<InvocationSlot> all;
  list.for_each([&](InvocationSlot slot) { all.push_back(slot); });
  return all;
}

TEST(RunList, TellsThoseThatRunAndForgetsThoseThatEnd) {
  RunList list;
  for (const InvocationSlot slot : {7U, 2U, 9U, 4U}) list.add(slot);
  list.erase(2);
  list.erase(2);
  list.erase(1000);
  EXPECT_EQ(all_of(list), (std::vector<InvocationSlot>{7, 9, 4}));
  list.add(2);
  EXPECT_EQ(all_of(list), (std::vector<InvocationSlot>{7, 9, 4, 2}));
  list.clear();
  EXPECT_TRUE(all_of(list).empty());
}

TEST(RunList, BehavesAsAVectorWhateverIsDoneToIt) {
  SeededRandom random(3);
  RunList list;
  std::vector<InvocationSlot> expected;
  for (int step = 0; step < 5'000; ++step) {
    const auto slot = static_cast<InvocationSlot>(random.below(50));
    const bool there = std::erase(expected, slot) > 0;
    list.erase(slot);
    if (!there && random.below(4) != 0) {
      list.add(slot);
      expected.push_back(slot);
    }
    ASSERT_EQ(all_of(list), expected);
  }
}

}  // namespace
}  // namespace lambent::dispatch
