#include "decide/scheduling/place_victims.h"

#include <gtest/gtest.h>

namespace lambent::scheduling {
namespace {

Instant at(int64_t second) { return Instant(seconds(second)); }

// Three functions of 6 GiB on two devices of 16.
class PlaceVictims : public testing::Test {
 protected:
  static FleetOptions options() {
    FleetOptions options;
    options.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16)},
                       {.id = DeviceId{2}, .memory = Bytes::gib(16)}};
    options.eviction = EvictionRule::kLeastRecentlyUsed;
    return options;
  }
  SandboxSlot idle(Fleet& fleet, uint32_t function, uint32_t device, int64_t used) {
    const FunctionId id{function};
    const SandboxSlot slot =
        fleet.plan(SandboxId{function}, id, flows_[function], Place{device}, at(used));
    fleet.start(slot, at(used));
    fleet.run(slot, at(used));
    fleet.rest(slot, at(used));
    return slot;
  }

  Flows flows_ = Flows(4, [] {
    Flow flow;
    flow.device_memory = Bytes::gib(6);
    return flow;
  }());
};

TEST_F(PlaceVictims, AreThoseOfTheDeviceWhoseMemoryIsShort) {
  Fleet fleet(options());
  idle(fleet, 1, 1, 1);
  const SandboxSlot older = idle(fleet, 2, 0, 2);
  idle(fleet, 3, 0, 3);
  EXPECT_TRUE(victims_for(fleet, Place{0}, Bytes::gib(4), flows_, at(9)).empty());
  EXPECT_EQ(victims_for(fleet, Place{0}, Bytes::gib(6), flows_, at(9)), std::vector{older});
  EXPECT_EQ(victims_for(fleet, Place{0}, Bytes::gib(16), flows_, at(9)).size(), 2u);
}

TEST_F(PlaceVictims, AreOfAnyDeviceWhereOnlyThePoolIsFull) {
  FleetOptions small = options();
  small.most_sandboxes = 2;
  Fleet fleet(small);
  const SandboxSlot older = idle(fleet, 1, 1, 1);
  idle(fleet, 2, 0, 2);
  EXPECT_EQ(victims_for(fleet, Place{0}, Bytes::gib(6), flows_, at(9)), std::vector{older});
}

TEST_F(PlaceVictims, ByWorthBytesCountWhereMemoryIsShortAndNotWhereAPlaceIs) {
  flows_[1].device_memory = Bytes::gib(8);
  flows_[2].device_memory = Bytes::gib(2);
  for (uint32_t function = 1; function <= 2; ++function) {
    flows_[function].interarrival = RunningMean(seconds(100), 4);
    flows_[function].cold_start = RunningMean(seconds(3 - function), 4);
  }
  FleetOptions small = options();
  small.eviction = EvictionRule::kWorth;
  small.most_sandboxes = 2;
  Fleet fleet(small);
  // It takes longer to start, but holds more than as many times as much.
  const SandboxSlot large = idle(fleet, 1, 0, 1);
  const SandboxSlot quick = idle(fleet, 2, 0, 1);
  EXPECT_EQ(victims_for(fleet, Place{0}, Bytes::gib(1), flows_, at(9)), std::vector{quick});
  EXPECT_EQ(victims_for(fleet, Place{0}, Bytes::gib(8), flows_, at(9)), std::vector{large});
}

TEST_F(PlaceVictims, AreNoneForMemoryThatMoves) {
  FleetOptions moving = options();
  moving.memory_rule = MemoryRule::kMoveIdle;
  Fleet fleet(moving);
  idle(fleet, 1, 0, 1);
  idle(fleet, 2, 0, 2);
  EXPECT_TRUE(victims_for(fleet, Place{0}, Bytes::gib(6), flows_, at(9)).empty());
}

TEST_F(PlaceVictims, AreCrowdedOutByWhatIsTaken) {
  Fleet fleet(options());
  const SandboxSlot older = idle(fleet, 1, 0, 1);
  const SandboxSlot newer = idle(fleet, 2, 0, 2);
  EXPECT_FALSE(crowded_out(fleet, 0, flows_, at(9)));
  fleet.set_taken(0, Bytes::gib(5));
  EXPECT_EQ(crowded_out(fleet, 0, flows_, at(9)), older);
  fleet.stop(older, at(9));
  EXPECT_FALSE(crowded_out(fleet, 0, flows_, at(9)));
  fleet.set_taken(0, Bytes::gib(11));
  EXPECT_EQ(crowded_out(fleet, 0, flows_, at(9)), newer);
}

}  // namespace
}  // namespace lambent::scheduling
