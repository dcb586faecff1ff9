#include "decide/scheduling/fleet.h"

#include <gtest/gtest.h>

#include "decide/scheduling/place_victims.h"

namespace lambent::scheduling {
namespace {

constexpr FunctionId kF{1};
constexpr Instant kNow{};

Flow flow_of(Bytes memory) {
  Flow flow;
  flow.registered = true;
  flow.device_memory = memory;
  return flow;
}

FleetOptions two_devices() {
  FleetOptions options;
  options.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16), .tokens = 1},
                     {.id = DeviceId{2}, .memory = Bytes::gib(16), .tokens = 1}};
  return options;
}

// A sandbox of the function that is idle on the device.
SandboxSlot warm(Fleet& fleet, FunctionId function, const Flow& flow, uint32_t device,
                 uint64_t id = 1) {
  const SandboxSlot slot = fleet.plan(SandboxId{id}, function, flow, Place{device}, kNow);
  fleet.start(slot, kNow);
  fleet.run(slot, kNow);
  fleet.rest(slot, kNow);
  return slot;
}

TEST(Fleet, PlacesAFunctionInItsWarmSandbox) {
  Fleet fleet(two_devices());
  const Flow flow = flow_of(Bytes::gib(1));
  const SandboxSlot slot = warm(fleet, kF, flow, 1);
  const auto found = fleet.places().find(kF, flow, false);
  ASSERT_TRUE(found.place);
  EXPECT_EQ(found.place->warm, slot);
  EXPECT_EQ(found.place->device, 1u);
}

TEST(Fleet, LeavesAWarmSandboxOnlyForADeviceThatHasNothingToDo) {
  FleetOptions options = two_devices();
  options.devices[1].tokens = 2;
  Fleet fleet(options);
  const Flow flow = flow_of(Bytes::gib(1));
  warm(fleet, kF, flow, 0);
  const Flow other = flow_of(Bytes::gib(1));
  fleet.run(warm(fleet, FunctionId{2}, other, 0, 2), kNow);
  EXPECT_EQ(fleet.places().find(kF, flow, false).place->device, 1u);
  fleet.run(warm(fleet, FunctionId{3}, other, 1, 3), kNow);
  const auto found = fleet.places().find(kF, flow, false);
  EXPECT_FALSE(found.place) << "device 2 has a token left but is at work";
  EXPECT_EQ(found.reason, WaitReason::kNoToken);
}

TEST(Fleet, CountsIdleSandboxesAsRoomAndNamesThemAsVictims) {
  FleetOptions options = two_devices();
  options.devices.resize(1);
  Fleet fleet(options);
  Flows flows(4, flow_of(Bytes::gib(10)));
  const SandboxSlot idle = warm(fleet, kF, flows[1], 0);
  const auto found = fleet.places().find(FunctionId{2}, flows[2], false);
  ASSERT_TRUE(found.place);
  EXPECT_EQ(victims_for(fleet, *found.place, flows[2].device_memory, flows, kNow),
            std::vector<SandboxSlot>{idle});
  fleet.stop(idle, kNow);
  const SandboxSlot planned = fleet.plan(SandboxId{2}, FunctionId{2}, flows[2], Place{0}, kNow);
  EXPECT_FALSE(fleet.may_start(planned)) << "the old one is still there";
  fleet.remove(idle);
  EXPECT_TRUE(fleet.may_start(planned));
}

TEST(Fleet, KeepsTheTokenOfASandboxThatIsBeingStopped) {
  Fleet fleet(two_devices());
  const Flow flow = flow_of(Bytes::gib(1));
  const SandboxSlot slot = warm(fleet, kF, flow, 0);
  fleet.run(slot, kNow);
  fleet.stop(slot, kNow);
  EXPECT_EQ(fleet.devices()[0].tokens_held, 1u);
  fleet.remove(slot);
  EXPECT_EQ(fleet.devices()[0].tokens_held, 0u);
  EXPECT_EQ(fleet.devices()[0].occupied, Bytes(0));
  EXPECT_TRUE(fleet.all().empty());
}

TEST(Fleet, SaysWhatIsMissing) {
  FleetOptions options = two_devices();
  options.devices.resize(1);
  options.devices[0].tokens = 2;
  options.most_sandboxes = 2;
  Fleet fleet(options);
  const Flow flow = flow_of(Bytes::gib(10));
  fleet.run(warm(fleet, kF, flow, 0), kNow);
  EXPECT_EQ(fleet.places().find(FunctionId{2}, flow, false).reason, WaitReason::kNoMemory);
  const Flow small = flow_of(Bytes::gib(1));
  fleet.run(warm(fleet, FunctionId{2}, small, 0, 2), kNow);
  EXPECT_FALSE(fleet.device_table().any_open());
  EXPECT_EQ(fleet.places().find(FunctionId{3}, small, false).reason, WaitReason::kNoSandbox);
  fleet.set_reading(0, 0, false);
  EXPECT_EQ(fleet.places().find(kF, flow, false).reason, WaitReason::kNoSandbox);
}

}  // namespace
}  // namespace lambent::scheduling
