#include "decide/scheduling/gang_places.h"

#include <gtest/gtest.h>

#include "decide/scheduling/fleet.h"
#include "decide/scheduling/place_victims.h"

namespace lambent::scheduling {
namespace {

constexpr FunctionId kPair{1};
constexpr FunctionId kOther{2};
constexpr Instant kNow{};

Flow flow_of(Bytes memory, uint8_t gpu_count = 1) {
  Flow flow;
  flow.registered = true;
  flow.device_memory = memory;
  flow.gpu_count = gpu_count;
  return flow;
}

class GangPlacesTest : public testing::Test {
 protected:
  static FleetOptions three_devices() {
    FleetOptions options;
    for (uint32_t id = 1; id <= 3; ++id) {
      options.devices.push_back({.id = DeviceId{id}, .memory = Bytes::gib(16), .tokens = 1});
    }
    return options;
  }

  // At work on this device.
  SandboxSlot work_on(uint32_t device) {
    const SandboxSlot slot = fleet_.plan(SandboxId{++ids_}, kOther, flow_of(Bytes::gib(1)),
                                         Place{.device = device}, kNow);
    fleet_.start(slot, kNow);
    fleet_.run(slot, kNow);
    return slot;
  }
  // An idle sandbox of the pair, where it has its place.
  SandboxSlot warm_pair() {
    const auto found = fleet_.places().find(kPair, pair_, false);
    const SandboxSlot slot = fleet_.plan(SandboxId{++ids_}, kPair, pair_, *found.place, kNow);
    fleet_.start(slot, kNow);
    fleet_.run(slot, kNow);
    fleet_.rest(slot, kNow);
    return slot;
  }

  uint64_t ids_ = 0;
  Flow pair_ = flow_of(Bytes::gib(10), 2);
  Fleet fleet_{three_devices()};
};

TEST_F(GangPlacesTest, TakesTheDevicesThatAreFree) {
  work_on(1);
  const auto found = fleet_.places().find(kPair, pair_, false);
  ASSERT_TRUE(found.place);
  EXPECT_EQ(found.place->device, 0u);
  EXPECT_EQ(found.place->beside, 0b100u);
}

TEST_F(GangPlacesTest, TakesNoneWhereTooFewAreFree) {
  work_on(1);
  work_on(2);
  const auto found = fleet_.places().find(kPair, pair_, false);
  EXPECT_FALSE(found.place);
  EXPECT_EQ(found.reason, WaitReason::kGpusNotTogether);
  EXPECT_EQ(fleet_.devices()[0].tokens_held, 0u);
}

// As where the first ones of many are cut up for pipelines.
TEST_F(GangPlacesTest, TakesNoDeviceWhoseIdActionsCannotName) {
  FleetOptions options;
  for (uint32_t id = 63; id <= 66; ++id) {
    options.devices.push_back({.id = DeviceId{id}, .memory = Bytes::gib(16), .tokens = 1});
  }
  const Fleet fleet(options);
  const auto found = fleet.places().find(kPair, pair_, false);
  ASSERT_TRUE(found.place);
  EXPECT_EQ(found.place->device, 0u);
  EXPECT_EQ(found.place->beside, 0b10u);
  EXPECT_TRUE(fleet.device_table().could_ever_fit(Bytes::gib(10), 2));
  EXPECT_FALSE(fleet.device_table().could_ever_fit(Bytes::gib(10), 3));
  const auto too_many = fleet.places().find(kPair, flow_of(Bytes::gib(10), 3), false);
  EXPECT_FALSE(too_many.place);
  EXPECT_EQ(too_many.reason, WaitReason::kNoDevice);
}

TEST_F(GangPlacesTest, HoldsATokenAndItsMemoryOfEachDeviceAndGivesAllBack) {
  const SandboxSlot slot = warm_pair();
  for (const uint32_t device : {0U, 1U}) {
    EXPECT_EQ(fleet_.devices()[device].occupied, Bytes::gib(10));
    EXPECT_EQ(fleet_.devices()[device].idle, 1u);
    EXPECT_EQ(fleet_.idle().on(device).size(), 1u);
  }
  EXPECT_EQ(fleet_.device_table().sandboxes(), 1u) << "it is one of the pool";
  fleet_.run(slot, kNow);
  EXPECT_EQ(fleet_.devices()[0].tokens_held, 1u);
  EXPECT_EQ(fleet_.devices()[1].tokens_held, 1u);
  EXPECT_TRUE(fleet_.idle().on(1).empty());
  fleet_.stop(slot, kNow);
  fleet_.remove(slot);
  for (const Device& device : fleet_.devices()) {
    EXPECT_TRUE(device.is_idle());
    EXPECT_EQ(device.occupied + device.committed + device.idle_memory, Bytes(0));
    EXPECT_EQ(device.sandboxes + device.occupants + device.idle, 0u);
  }
}

TEST_F(GangPlacesTest, IsEvictedForOneThatWantsRoomOnAnyOfItsDevices) {
  const SandboxSlot slot = warm_pair();
  const Flows flows(3, flow_of(Bytes::gib(10)));
  EXPECT_EQ(victims_for(fleet_, Place{.device = 1}, Bytes::gib(10), flows, kNow),
            std::vector<SandboxSlot>{slot});
  EXPECT_TRUE(victims_for(fleet_, Place{.device = 2}, Bytes::gib(10), flows, kNow).empty());
  // On both it is one victim.
  EXPECT_EQ(victims_for(fleet_, Place{.device = 0, .beside = 0b10}, Bytes::gib(10), flows, kNow),
            std::vector<SandboxSlot>{slot});
}

TEST_F(GangPlacesTest, ReservedDevicesAreThereForOneAlone) {
  work_on(0);
  const SandboxSlot on_second = work_on(1);
  fleet_.reserve(0b110);
  EXPECT_FALSE(fleet_.devices()[2].has_token());
  EXPECT_FALSE(fleet_.devices()[2].is_idle());
  EXPECT_EQ(fleet_.places().find(kOther, flow_of(Bytes::gib(1)), false).reason,
            WaitReason::kGpuReserved);
  EXPECT_FALSE(fleet_.places().find_on_reserved(kPair, pair_).place) << "one is at work";
  fleet_.rest(on_second, kNow);
  EXPECT_FALSE(fleet_.places().find(kPair, pair_, false).place) << "not for any that asks";
  const auto found = fleet_.places().find_on_reserved(kPair, pair_);
  ASSERT_TRUE(found.place);
  EXPECT_EQ(found.place->beside | uint64_t{1} << found.place->device, 0b110u);
  fleet_.reserve(0);
  EXPECT_TRUE(fleet_.devices()[2].has_token());
}

TEST_F(GangPlacesTest, TheDevicesOfItsIdleSandboxAreReservedForIt) {
  warm_pair();
  work_on(0);
  EXPECT_EQ(
      fleet_.places().gangs().to_reserve({.function = kPair, .count = 2, .memory = Bytes::gib(10)}),
      0b011u);
  EXPECT_EQ(
      fleet_.places().gangs().to_reserve({.function = kOther, .count = 2, .memory = Bytes::gib(1)}),
      0b110u)
      << "those that take it now";
  EXPECT_EQ(
      fleet_.places().gangs().to_reserve({.function = kOther, .count = 4, .memory = Bytes::gib(1)}),
      0u);
}

TEST_F(GangPlacesTest, WhatHangsOnADeviceIsNotWaitedFor) {
  const Flow large = flow_of(Bytes::gib(10));
  const SandboxSlot slot = fleet_.plan(SandboxId{++ids_}, kOther, large, Place{.device = 1}, kNow);
  fleet_.start(slot, kNow);
  fleet_.run(slot, kNow);
  const GangPlaces::Wanted wanted{.function = kPair, .count = 3, .memory = Bytes::gib(10)};
  const GangPlaces& gangs = fleet_.places().gangs();
  EXPECT_EQ(gangs.to_reserve(wanted), 0b111u);
  fleet_.stop(slot, kNow);
  EXPECT_EQ(gangs.to_reserve(wanted), 0b111u);
  fleet_.keep_counting(slot);
  EXPECT_EQ(gangs.to_reserve(wanted), 0u);
}

}  // namespace
}  // namespace lambent::scheduling
