#include "decide/scheduling/noted_flows.h"

#include <gtest/gtest.h>

namespace lambent::scheduling {
namespace {

using Because = NoPlace::Because;

Instant at(int64_t second) { return Instant(seconds(second)); }
NoPlace note(Because because, Bytes memory = Bytes(0), Instant then = kNever) {
  return {.because = because, .memory = memory, .then = then};
}

TEST(NotedFlows, KeepEachFlowWithItsKeyAndItsNote) {
  NotedFlows<int> flows;
  flows.insert(0, 7, 20, note(Because::kAtWork));
  flows.insert(0, 3, 10, note(Because::kNowhere));
  EXPECT_EQ(flows.size(), 2u);
  EXPECT_EQ(flows.item(0), 3u);
  EXPECT_EQ(flows.key(1), 20);
  EXPECT_EQ(flows.place_of(7), 1u);
  EXPECT_EQ(flows.note(1).because, Because::kAtWork);
  EXPECT_EQ(flows.remove(0), 10);
  EXPECT_FALSE(flows.contains(3));
  EXPECT_TRUE(flows.contains(7));
  EXPECT_FALSE(flows.contains(99));
}

TEST(NotedFlows, CountTheirReasons) {
  NotedFlows<int> flows;
  flows.insert(0, 1, 1, note(Because::kAtWork));
  EXPECT_FALSE(flows.any_not_at_work());
  flows.insert(1, 2, 2, note(Because::kUnknown));
  flows.insert(2, 3, 3, note(Because::kNowhere));
  EXPECT_TRUE(flows.any_unknown());
  EXPECT_TRUE(flows.any_nowhere());
  EXPECT_TRUE(flows.any_not_at_work());
  EXPECT_EQ(flows.at_work_before_others(), 1u);
  flows.set_note(1, note(Because::kAtWork));
  EXPECT_FALSE(flows.any_unknown());
  EXPECT_EQ(flows.at_work_before_others(), 2u);
  flows.remove(2);
  EXPECT_FALSE(flows.any_nowhere());
  EXPECT_FALSE(flows.any_not_at_work());
}

TEST(NotedFlows, TellThoseThatWaitForTokensFromThoseThatWaitForRoom) {
  NotedFlows<int> flows;
  NoPlace warm = note(Because::kWarm);
  warm.warm_reason = WaitReason::kNoToken;
  flows.insert(0, 1, 1, warm);
  EXPECT_FALSE(flows.any_warm_without_room());
  warm.warm_reason = WaitReason::kNoMemory;
  flows.set_note(0, warm);
  EXPECT_TRUE(flows.any_warm_without_room());
}

TEST(NotedFlows, BoundWhatTheyAskForUntilItIsLookedUp) {
  NotedFlows<int> flows;
  flows.insert(0, 1, 1, note(Because::kNowhere, Bytes::gib(8)));
  flows.insert(1, 2, 2, note(Because::kNowhere, Bytes::gib(4)));
  flows.remove(0);
  EXPECT_GE(flows.most_memory(), Bytes::gib(4));
  EXPECT_EQ(flows.find_most_memory(), Bytes::gib(4));
  EXPECT_EQ(flows.most_memory(), Bytes::gib(4));
  flows.remove(0);
  EXPECT_EQ(flows.most_memory(), Bytes(0));
}

TEST(NotedFlows, KnowTheEarliestInstantOfAllAndOfTheFirst) {
  NotedFlows<int> flows;
  flows.insert(0, 1, 1, note(Because::kWarm, {}, at(9)));
  flows.insert(1, 2, 2, note(Because::kWarm, {}, at(5)));
  EXPECT_EQ(flows.least_then(), at(5));
  EXPECT_EQ(flows.find_least_then(1), at(9));
  EXPECT_EQ(flows.find_least_then(), at(5));
  flows.remove(1);
  EXPECT_LE(flows.least_then(), at(9));
  EXPECT_EQ(flows.find_least_then(), at(9));
}

}  // namespace
}  // namespace lambent::scheduling
