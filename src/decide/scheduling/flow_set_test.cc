#include "decide/scheduling/flow_set.h"

#include <gtest/gtest.h>

#include <set>

namespace lambent::scheduling {
namespace {

std::vector<uint32_t> walked(const FlowSet& flows) {
  std::vector<uint32_t> found;
  flows.for_each([&](FunctionId function) { found.push_back(function.value); });
  return found;
}

TEST(FlowSet, IsWalkedInOrderWhateverCameAndWent) {
  FlowSet flows;
  std::set<uint32_t> expected;
  uint32_t state = 1;
  for (int step = 0; step < 20'000; ++step) {
    state = state * 1'664'525 + 1'013'904'223;
    const uint32_t function = (state >> 8) % 9'000;
    const bool in = (state >> 4 & 3) == 0;
    flows.put(FunctionId{function}, in);
    in ? (void)expected.insert(function) : (void)expected.erase(function);
    ASSERT_EQ(flows.contains(FunctionId{function}), in);
    ASSERT_EQ(flows.size(), expected.size());
    if (step % 500 == 0) {
      ASSERT_EQ(walked(flows), (std::vector<uint32_t>(expected.begin(), expected.end())));
    }
  }
  flows.clear();
  EXPECT_TRUE(flows.empty());
  EXPECT_TRUE(walked(flows).empty());
  flows.put(FunctionId{4'096}, true);
  EXPECT_EQ(walked(flows), std::vector<uint32_t>{4'096});
}

TEST(FlowSet, IsWalkedRoundAndRound) {
  FlowSet flows;
  const std::vector<uint32_t> in = {0, 63, 64, 70, 4'095, 4'096, 9'000};
  for (const uint32_t function : in) flows.put(FunctionId{function}, true);
  FunctionId at{9'000};
  for (int round = 0; round < 2; ++round) {
    for (const uint32_t function : in) {
      at = flows.after(at);
      ASSERT_EQ(at.value, function);
    }
  }
  EXPECT_EQ(flows.after(FunctionId{1}).value, 63u) << "from one that is not in it";
  EXPECT_EQ(flows.after(FunctionId{1'000'000}).value, 0u);
  for (const uint32_t function : in) flows.put(FunctionId{function}, function == 70);
  EXPECT_EQ(flows.after(FunctionId{70}).value, 70u);
}

TEST(FlowSet, AsksNoMoreOnceOneWasFound) {
  FlowSet flows;
  for (const uint32_t function : {5U, 70U, 100'000U}) flows.put(FunctionId{function}, true);
  int asked = 0;
  EXPECT_TRUE(flows.any_of([&](FunctionId function) { return ++asked, function.value == 70; }));
  EXPECT_EQ(asked, 2);
  EXPECT_FALSE(flows.any_of([](FunctionId) { return false; }));
}

}  // namespace
}  // namespace lambent::scheduling
