#include "decide/scheduling/memory_victims.h"

#include <gtest/gtest.h>

#include "decide/scheduling/mqfq_sticky.h"

namespace lambent::scheduling {
namespace {

// Functions 1 to 4 of 4 GiB each, idle on one device in the order of their use.
class MemoryVictims : public testing::Test {
 protected:
  explicit MemoryVictims(EvictionRule rule = EvictionRule::kCostAware)
      : flows_(6), fleet_(options(rule)), policy_(MqfqOptions{}) {
    for (uint32_t id = 1; id <= 4; ++id) {
      Flow& flow = flows_[id];
      flow.registered = true;
      flow.device_memory = Bytes::gib(4);
      policy_.flow_changed(view(), FunctionId{id}, at(0));
      slots_[id] = fleet_.plan(SandboxId{id}, FunctionId{id}, flow, Place{0}, at(id));
      fleet_.start(slots_[id], at(id));
      fleet_.run(slots_[id], at(id));
      fleet_.rest(slots_[id], at(id));
    }
  }

  static FleetOptions options(EvictionRule rule) {
    FleetOptions options;
    options.eviction = rule;
    options.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(20), .contexts = 4}};
    options.memory_rule = MemoryRule::kMoveIdle;
    options.host_memory = Bytes::gib(8);
    return options;
  }
  static Instant at(int64_t s) { return Instant(seconds(s)); }
  View view() const { return {flows_, fleet_, tenants_}; }
  std::optional<MemoryVictim> victim() { return memory_victim(view(), policy_, 0, at(9)); }
  void wait_in(uint32_t id) {
    flows_[id].pending = 1;
    policy_.enqueued(view(), FunctionId{id}, at(9));
  }
  void move_out(uint32_t id, Bytes left = {}) {
    fleet_.memory().begin_move_out(slots_[id], false);
    fleet_.memory().end_move(slots_[id], true, left);
  }

  Flows flows_;
  Tenants tenants_;
  Fleet fleet_;
  MqfqStickyPolicy policy_;
  SandboxSlot slots_[5] = {};
};

class MemoryVictimsByWorth : public MemoryVictims {
 protected:
  MemoryVictimsByWorth() : MemoryVictims(EvictionRule::kWorth) {}
};

// What is offloaded is not on the device, however it is asked.
TEST_F(MemoryVictims, MakeTheRoomThatTheyTakeAndNoMore) {
  fleet_.memory().begin_move_out(slots_[1], false);
  fleet_.memory().end_move(slots_[1], true, Bytes(0), Bytes::gib(3));
  EXPECT_EQ(fleet_.devices()[0].resident, Bytes::gib(12));
  EXPECT_EQ(fleet_.memory().on_host(), Bytes::gib(4));
  fleet_.memory().begin_move_in(slots_[1]);
  fleet_.memory().end_move(slots_[1], true, Bytes(0));
  EXPECT_EQ(fleet_.devices()[0].resident, Bytes::gib(13));
  EXPECT_EQ(fleet_.memory().on_host(), Bytes::gib(3));
  const auto unwanted = unwanted_memory(view(), policy_, 0, FunctionId{4}, Bytes::gib(2), at(9));
  EXPECT_EQ(unwanted, (std::vector<SandboxSlot>{slots_[1], slots_[2]})) << "the first has one GiB";
}

TEST_F(MemoryVictims, AreTheLeastRecentlyUsedOfThoseThatNobodyWaitsFor) {
  EXPECT_EQ(victim()->slot, slots_[1]);
  EXPECT_EQ(victim()->relief, Relief::kMoveOut);
  for (const uint32_t id : {2u, 3u, 4u}) wait_in(id);
  EXPECT_EQ(victim()->slot, slots_[1]) << "the others have work waiting";
  wait_in(1);
  EXPECT_EQ(victim()->slot, slots_[1]) << "no other will do";
}

TEST_F(MemoryVictims, AreThoseInTheirGracePeriodLast) {
  flows_[4].interarrival.learn(seconds(1000));
  EXPECT_EQ(victim()->slot, slots_[1]) << "how often it is called does not count";
  flows_[1].active_until = at(20);
  EXPECT_EQ(victim()->slot, slots_[2]);
  for (const uint32_t id : {2u, 3u, 4u}) wait_in(id);
  EXPECT_EQ(victim()->slot, slots_[1]) << "the others have work waiting";
}

// What was used last may be what is wanted least.
TEST_F(MemoryVictimsByWorth, AreThoseThatAreWantedLeastOften) {
  for (const uint32_t id : {1u, 2u, 3u}) flows_[id].interarrival.learn(seconds(10));
  flows_[4].interarrival.learn(seconds(1000));
  EXPECT_EQ(victim()->slot, slots_[4]);
  flows_[2].interarrival = RunningMean(seconds(5000), 9);
  EXPECT_EQ(victim()->slot, slots_[2]);
  EXPECT_EQ(unwanted_memory(view(), policy_, 0, FunctionId{4}, Bytes::gib(5), at(9)),
            (std::vector{slots_[2], slots_[1]}));
}

TEST_F(MemoryVictimsByWorth, AreNotThoseThatHaveBeenSilentForLongerThanUsualOnly) {
  flows_[1].interarrival.learn(seconds(1));
  flows_[4].interarrival.learn(seconds(100));
  EXPECT_EQ(victim()->slot, slots_[4]) << "100 s between calls, and 1 s that became 8 s";
  EXPECT_EQ(memory_victim(view(), policy_, 0, at(200))->slot, slots_[1])
      << "silent for 199 s: it may have gone";
}

// Nothing can move: the worth of a byte is the start that it saves.
TEST_F(MemoryVictimsByWorth, AreThoseWhoseBytesSaveLeastWhereTheyAreEvicted) {
  move_out(1);
  move_out(2);  // the host has no more room
  flows_[3].cold_start.learn(seconds(9));
  flows_[4].cold_start.learn(seconds(1));
  ASSERT_EQ(victim()->relief, Relief::kEvict);
  EXPECT_EQ(victim()->slot, slots_[4]) << "both were called once; its start is shorter";
}

TEST_F(MemoryVictims, AreNoneOfMinInstancesWhileOthersCanGo) {
  flows_[1].min_instances = 1;
  flows_[1].interarrival.learn(seconds(100'000));
  EXPECT_EQ(victim()->slot, slots_[2]);
  EXPECT_EQ(unwanted_memory(view(), policy_, 0, FunctionId{4}, Bytes::gib(9), at(9)),
            (std::vector<SandboxSlot>{}))
      << "the two others have 8 GiB";
  for (const uint32_t id : {2u, 3u}) move_out(id);
  EXPECT_EQ(victim()->slot, slots_[4]) << "evicted: the host has no more room";
  fleet_.run(slots_[4], at(9));
  EXPECT_EQ(victim()->slot, slots_[1]) << "rather than that an invocation waits for ever";
}

TEST_F(MemoryVictims, AreMovedBeforeOthersAreEvictedUnlessTheirTurnIsNext) {
  fleet_.memory().begin_move_out(slots_[1], false);
  EXPECT_EQ(victim()->slot, slots_[2]) << "what is on its way is left alone";
  fleet_.memory().end_move(slots_[1], false, {});
  EXPECT_EQ(victim()->slot, slots_[2]) << "its last move failed, so it would be evicted";
  for (const uint32_t id : {2u, 3u, 4u}) wait_in(id);
  EXPECT_EQ(victim()->slot, slots_[1]);
  EXPECT_EQ(victim()->relief, Relief::kEvict);
}

TEST_F(MemoryVictims, AreEvictedOnceTheHostHasNoRoom) {
  move_out(1);
  move_out(2);
  EXPECT_EQ(fleet_.memory().on_host(), Bytes::gib(8));
  EXPECT_EQ(victim()->slot, slots_[3]);
  EXPECT_EQ(victim()->relief, Relief::kEvict);
}

TEST_F(MemoryVictims, AreNoneWhereNothingOfTheIdleOnesIsThere) {
  for (const uint32_t id : {1u, 2u}) move_out(id);
  for (const uint32_t id : {3u, 4u}) fleet_.run(slots_[id], at(9));
  EXPECT_FALSE(victim());
}

TEST_F(MemoryVictims, ForAFetchAheadAreThoseThatMakeAllTheRoomItNeeds) {
  const auto unwanted = [&](uint64_t gib) {
    return unwanted_memory(view(), policy_, 0, FunctionId{1}, Bytes::gib(gib), at(9));
  };
  EXPECT_EQ(unwanted(3), std::vector{slots_[2]});
  EXPECT_EQ(unwanted(7), (std::vector{slots_[2], slots_[3]}));
  EXPECT_EQ(unwanted(13), std::vector<SandboxSlot>{}) << "not even all three";
  wait_in(2);
  EXPECT_EQ(unwanted(3), std::vector{slots_[3]});
}

TEST_F(MemoryVictims, ForAContextGiveUpTheirContextAloneWhereThatCanBe) {
  EXPECT_EQ(context_victim(view(), 0, at(9))->relief, Relief::kEvict);
  Flow& flow = flows_[5];
  flow.registered = true;
  flow.checkpoints = true;
  flow.device_memory = Bytes::gib(2);
  const SandboxSlot slot = fleet_.plan(SandboxId{5}, FunctionId{5}, flow, Place{0}, at(8));
  fleet_.start(slot, at(8));
  fleet_.run(slot, at(8));
  fleet_.rest(slot, at(8));
  EXPECT_EQ(context_victim(view(), 0, at(9))->relief, Relief::kEvict) << "its memory is in";
  fleet_.memory().begin_move_out(slot, false);
  fleet_.memory().end_move(slot, true, Bytes::mib(500));
  EXPECT_EQ(context_victim(view(), 0, at(9))->relief, Relief::kMoveContextOut);
  EXPECT_EQ(context_victim(view(), 0, at(9))->slot, slot);
  EXPECT_TRUE(fleet_.devices()[0].contexts_short()) << "five sandboxes, four contexts";
  fleet_.memory().begin_move_out(slot, true);
  EXPECT_FALSE(fleet_.devices()[0].contexts_short()) << "relief is on its way";
  fleet_.memory().end_move(slot, true, {});
  EXPECT_EQ(fleet_.devices()[0].without_context, 1u);
  EXPECT_EQ(fleet_.devices()[0].resident, Bytes::gib(16));
}

TEST_F(MemoryVictims, AreSparedForFlowsThatThePolicyLooksAhead) {
  for (const uint32_t id : {3u, 1u, 4u}) wait_in(id);
  flows_[4].pending = 3;
  policy_.enqueued(view(), FunctionId{4}, at(9));
  std::vector<FunctionId> next;
  policy_.look_ahead(view(), 2, next);
  EXPECT_EQ(next, (std::vector{FunctionId{4}, FunctionId{1}})) << "the longest queue first";
  std::vector<FunctionId> again;
  policy_.look_ahead(view(), 9, again);
  EXPECT_EQ(again, (std::vector{FunctionId{4}, FunctionId{1}, FunctionId{3}}));
  EXPECT_EQ(policy_.decide(view(), at(9)).function, FunctionId{4}) << "a look changes nothing";
}

}  // namespace
}  // namespace lambent::scheduling
