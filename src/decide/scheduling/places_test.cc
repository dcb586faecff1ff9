#include "decide/scheduling/places.h"

#include <gtest/gtest.h>

#include "decide/scheduling/fleet.h"

namespace lambent::scheduling {
namespace {

constexpr FunctionId kF{1};
constexpr FunctionId kOther{2};
Instant at(int64_t second) { return Instant(seconds(second)); }

// Two devices with a token each. A cold start of the flow takes 5 s.
class PlacesTest : public testing::Test {
 protected:
  PlacesTest() {
    flow_.registered = true;
    flow_.device_memory = Bytes::gib(1);
    flow_.cold_start = RunningMean(seconds(5), 1);
    fleet_.set_time(at(0));
  }
  static FleetOptions options() {
    FleetOptions options;
    options.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16), .tokens = 1},
                       {.id = DeviceId{2}, .memory = Bytes::gib(16), .tokens = 1}};
    return options;
  }
  SandboxSlot busy(uint64_t id, FunctionId function, uint32_t device) {
    const SandboxSlot slot = fleet_.plan(SandboxId{id}, function, flow_, Place{device}, at(0));
    fleet_.start(slot, at(0));
    fleet_.run(slot, at(0));
    return slot;
  }
  SandboxSlot warm(uint64_t id, FunctionId function, uint32_t device) {
    const SandboxSlot slot = busy(id, function, device);
    fleet_.rest(slot, at(0));
    return slot;
  }
  const Places& places() { return fleet_.places(); }

  Fleet fleet_{options()};
  Flow flow_;
};

TEST_F(PlacesTest, LeaveAWarmSandboxOnABusyDeviceOnlyAfterItsGracePeriod) {
  warm(1, kF, 0);
  busy(2, kOther, 0);
  PlaceOrReason found = places().find(kF, flow_, false);
  EXPECT_FALSE(found.place);
  EXPECT_EQ(found.reason, WaitReason::kWarmElsewhere);
  EXPECT_EQ(places().next_move(), at(5));
  fleet_.set_time(at(5));
  found = places().find(kF, flow_, false);
  ASSERT_TRUE(found.place);
  EXPECT_EQ(found.place->device, 1u);
  EXPECT_EQ(found.place->warm, kNoSandbox);
}

TEST_F(PlacesTest, AddASandboxToAFunctionAtWorkOnlyAfterItsGracePeriod) {
  busy(1, kF, 0);
  flow_.in_flight = 1;
  EXPECT_EQ(places().find(kF, flow_, false).reason, WaitReason::kAtWork);
  fleet_.set_time(at(5));
  EXPECT_TRUE(places().find(kF, flow_, false).place);
}

TEST_F(PlacesTest, WaitForTheFirstStartOfAFunctionWhoseCostIsUnknown) {
  flow_.cold_start = {};
  flow_.in_flight = 1;
  const SandboxSlot starting = fleet_.plan(SandboxId{1}, kF, flow_, Place{0}, at(0));
  EXPECT_EQ(places().find(kF, flow_, false).reason, WaitReason::kAtWork);
  fleet_.start(starting, at(0));
  fleet_.run(starting, at(0));
  EXPECT_TRUE(places().find(kF, flow_, false).place);
}

TEST_F(PlacesTest, SaySoOfANoteAslongAsNothingHasChanged) {
  warm(1, kF, 0);
  const SandboxSlot other = busy(2, kOther, 0);
  ASSERT_FALSE(places().find(kF, flow_, false).place);
  const NoPlace note = places().note_none(kF, flow_, false);
  EXPECT_EQ(note.because, NoPlace::Because::kWarm);
  EXPECT_EQ(note.then, at(5));
  PlaceOrReason answer;
  EXPECT_TRUE(places().still_none(note, kF, false, answer));
  EXPECT_EQ(answer.reason, WaitReason::kWarmElsewhere);
  EXPECT_FALSE(places().still_none(note, kF, true, answer)) << "another question";
  EXPECT_FALSE(places().may_end_wait(0, note));
  fleet_.rest(other, at(1));
  EXPECT_TRUE(places().may_end_wait(0, note));
  fleet_.set_time(at(5));
  EXPECT_FALSE(places().still_none(note, kF, false, answer)) << "it is time";
}

TEST_F(PlacesTest, AnswerForOneDeviceOnly) {
  const SandboxSlot slot = warm(1, kF, 0);
  const auto there = places().find_on(0, kF, flow_);
  ASSERT_TRUE(there.place);
  EXPECT_EQ(there.place->warm, slot);
  const auto elsewhere = places().find_on(1, kF, flow_);
  ASSERT_TRUE(elsewhere.place);
  EXPECT_EQ(elsewhere.place->warm, kNoSandbox);
  busy(2, kOther, 1);
  EXPECT_EQ(places().find_on(1, kF, flow_).reason, WaitReason::kNoToken);
}

TEST_F(PlacesTest, KnowWhetherADeviceWithNothingToDoTakesSoMuch) {
  EXPECT_TRUE(places().any_on_idle_device(Bytes::gib(16)));
  EXPECT_FALSE(places().any_on_idle_device(Bytes::gib(17)));
  busy(1, kOther, 0);
  busy(2, kOther, 1);
  EXPECT_FALSE(places().any_on_idle_device(Bytes::gib(1)));
}

}  // namespace
}  // namespace lambent::scheduling
