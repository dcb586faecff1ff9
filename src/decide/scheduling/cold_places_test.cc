#include "decide/scheduling/cold_places.h"

#include <gtest/gtest.h>

namespace lambent::scheduling {
namespace {

class ColdPlacesTest : public testing::Test {
 protected:
  ColdPlacesTest() {
    for (uint32_t i = 0; i < 3; ++i) devices_.set_reading(i, 0, true, false);
  }
  static FleetOptions options() {
    FleetOptions options;
    for (uint32_t id = 1; id <= 3; ++id) {
      options.devices.push_back({.id = DeviceId{id}, .memory = Bytes::gib(16), .tokens = 2});
    }
    return options;
  }
  Sandbox& run_on(uint32_t device, Bytes memory) {
    Sandbox& sandbox = sandboxes_[used_++];
    sandbox = {.device = device, .memory = memory};
    devices_.add_sandbox(sandbox);
    devices_.commit(sandbox, memory);
    devices_.hold(sandbox, Sandbox::Holds::kToken);
    return sandbox;
  }
  std::optional<uint32_t> device_for(Bytes memory, bool idle_only = false) {
    const PlaceOrReason found = places_.find(memory, idle_only);
    EXPECT_EQ(found.place.has_value(), places_.any(memory, idle_only));
    return found.place ? std::optional(found.place->device) : std::nullopt;
  }

  FleetOptions options_ = options();
  FleetChanges changes_{3};
  DeviceTable devices_{options_, changes_};
  ColdPlaces places_{devices_, changes_};
  Sandbox sandboxes_[8];
  size_t used_ = 0;
};

TEST_F(ColdPlacesTest, TakeTheLeastLoadedDeviceAndOfEqualsTheOneWithMostMemory) {
  EXPECT_EQ(device_for(Bytes::gib(1)), 0u);
  run_on(0, Bytes::gib(1));
  EXPECT_EQ(device_for(Bytes::gib(1)), 1u);
  run_on(1, Bytes::gib(2));
  run_on(2, Bytes::gib(1));
  EXPECT_EQ(device_for(Bytes::gib(1)), 0u);
  run_on(0, Bytes::gib(1));
  EXPECT_EQ(device_for(Bytes::gib(1)), 2u) << "1 has less memory left";
}

TEST_F(ColdPlacesTest, LookPastTheLeastLoadedDeviceForALargeSandbox) {
  for (uint32_t device = 0; device < 3; ++device) {
    run_on(device, device == 2 ? Bytes::gib(1) : Bytes::gib(8));
  }
  run_on(2, Bytes::gib(1));
  EXPECT_EQ(device_for(Bytes::gib(8)), 0u);
  EXPECT_FALSE(device_for(Bytes::gib(9)));
  EXPECT_EQ(places_.find(Bytes::gib(9), false).reason, WaitReason::kNoToken)
      << "of the last device";
}

TEST_F(ColdPlacesTest, RememberAFailureOnlyUntilADeviceChanges) {
  Sandbox* large = nullptr;
  for (uint32_t device = 0; device < 3; ++device) large = &run_on(device, Bytes::gib(10));
  EXPECT_FALSE(device_for(Bytes::gib(8)));
  EXPECT_FALSE(device_for(Bytes::gib(12)));
  EXPECT_EQ(device_for(Bytes::gib(6)), 0u);
  devices_.commit(*large, Bytes(0));
  EXPECT_EQ(device_for(Bytes::gib(8)), 2u);
}

TEST_F(ColdPlacesTest, KnowDevicesWithNothingToDoFromOthers) {
  run_on(0, Bytes::gib(1));
  run_on(1, Bytes::gib(1));
  EXPECT_EQ(device_for(Bytes::gib(1), true), 2u);
  run_on(2, Bytes::gib(1));
  EXPECT_FALSE(device_for(Bytes::gib(1), true));
  EXPECT_TRUE(device_for(Bytes::gib(1), false));
}

TEST_F(ColdPlacesTest, EndWithThePool) {
  options_.most_sandboxes = 1;
  run_on(0, Bytes::gib(1));
  EXPECT_FALSE(device_for(Bytes::gib(1)));
  EXPECT_EQ(places_.find(Bytes::gib(1), false).reason, WaitReason::kNoSandbox);
}

}  // namespace
}  // namespace lambent::scheduling
