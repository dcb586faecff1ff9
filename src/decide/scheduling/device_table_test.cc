#include "decide/scheduling/device_table.h"

#include <gtest/gtest.h>

namespace lambent::scheduling {
namespace {

FleetOptions two_devices() {
  FleetOptions options;
  options.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16), .tokens = 1},
                     {.id = DeviceId{2}, .memory = Bytes::gib(40), .tokens = 1}};
  return options;
}

class DeviceTableTest : public testing::Test {
 protected:
  std::vector<uint32_t> changed() {
    std::vector<uint32_t> changed;
    changes_.visit_loads([&](uint32_t device) { changed.push_back(device); });
    return changed;
  }

  FleetOptions options_ = two_devices();
  FleetChanges changes_{2};
  DeviceTable devices_{options_, changes_};
  Sandbox first_{.device = 0, .memory = Bytes::gib(10)};
  Sandbox second_{.device = 1, .memory = Bytes::gib(10)};
};

TEST_F(DeviceTableTest, KnowsWhetherAnyDeviceIsOpenOrIdleOrAllAreFull) {
  EXPECT_TRUE(devices_.any_open());
  EXPECT_TRUE(devices_.any_idle());
  devices_.hold(first_, Sandbox::Holds::kToken);
  EXPECT_TRUE(devices_.any_open());
  EXPECT_FALSE(devices_.all_full());
  devices_.hold(second_, Sandbox::Holds::kToken);
  EXPECT_FALSE(devices_.any_open());
  EXPECT_FALSE(devices_.any_idle());
  EXPECT_TRUE(devices_.all_full());
  devices_.release(second_);
  EXPECT_TRUE(devices_.any_open());
  EXPECT_EQ(second_.holds, Sandbox::Holds::kNothing);
}

TEST_F(DeviceTableTest, CountsADeviceThatIsNotHealthyAsNeitherOpenNorFull) {
  devices_.set_reading(1, 0, false, false);
  devices_.hold(first_, Sandbox::Holds::kToken);
  EXPECT_FALSE(devices_.any_open());
  EXPECT_FALSE(devices_.all_full());
  EXPECT_FALSE(devices_.could_hold(Bytes::gib(20)));
  EXPECT_TRUE(devices_.could_ever_fit(Bytes::gib(20)));
  devices_.set_reading(1, 0, true, false);
  EXPECT_TRUE(devices_.could_hold(Bytes::gib(20)));
}

TEST_F(DeviceTableTest, FindsADeviceByItsId) {
  EXPECT_EQ(devices_.index_of(DeviceId{2}), 1u);
  EXPECT_FALSE(devices_.index_of(DeviceId{3}));
  EXPECT_FALSE(devices_.index_of(kHostDevice));
}

TEST_F(DeviceTableTest, NamesTheDevicesWhereWhatIsTakenLeavesTooLittle) {
  devices_.commit(second_, Bytes::gib(30));
  devices_.commit(first_, Bytes::gib(10));
  devices_.set_taken(1, Bytes::gib(11));
  devices_.set_taken(0, Bytes::gib(7));
  EXPECT_EQ(devices_.crowded(), (std::vector<uint32_t>{0, 1}));
  devices_.commit(first_, Bytes(0));
  EXPECT_EQ(devices_.crowded(), std::vector<uint32_t>{1});
  devices_.set_taken(1, Bytes(0));
  EXPECT_TRUE(devices_.crowded().empty());
}

TEST_F(DeviceTableTest, TellsEachChangeOnce) {
  EXPECT_EQ(changed().size(), 2u) << "all are new";
  const uint64_t version = changes_.version();
  EXPECT_TRUE(changed().empty());
  devices_.commit(second_, Bytes::gib(1));
  devices_.commit(second_, Bytes::gib(2));
  EXPECT_NE(changes_.version(), version);
  EXPECT_EQ(changed(), std::vector<uint32_t>{1});
}

TEST_F(DeviceTableTest, CountsIdleMemoryAsFreeUnlessItMoves) {
  devices_.add_sandbox(first_);
  devices_.commit(first_, first_.memory);
  EXPECT_FALSE(devices_.room().memory_fits(devices_[0], Bytes::gib(10)));
  devices_.add_idle(first_);
  EXPECT_TRUE(devices_.room().memory_fits(devices_[0], Bytes::gib(10)));
  options_.memory_rule = MemoryRule::kMoveIdle;
  EXPECT_FALSE(devices_.room().memory_fits(devices_[0], Bytes::gib(10)));
}

TEST_F(DeviceTableTest, KnowsWhenNoIdleSandboxIsLeftToEvict) {
  options_.most_sandboxes = 1;
  EXPECT_FALSE(devices_.pool_is_full());
  devices_.add_sandbox(first_);
  EXPECT_TRUE(devices_.pool_is_full());
  devices_.add_idle(first_);
  EXPECT_FALSE(devices_.pool_is_full());
}

TEST_F(DeviceTableTest, HasAStartSlotOnlyBesideRoomForWhatRuns) {
  options_.starts_outside_tokens = 1;
  EXPECT_TRUE(devices_.room().has_start_slot(devices_[0], Bytes::gib(5)));
  EXPECT_FALSE(devices_.room().has_start_slot(devices_[0], Bytes::gib(6)));
  devices_.hold(first_, Sandbox::Holds::kStartSlot);
  EXPECT_FALSE(devices_.room().has_start_slot(devices_[0], Bytes::gib(1)));
}

TEST_F(DeviceTableTest, HasNoStartSlotWhereOnlySandboxesThatDoNotGoHoldTokens) {
  options_.starts_outside_tokens = 1;
  devices_.hold(first_, Sandbox::Holds::kToken);
  EXPECT_TRUE(devices_.room().has_start_slot(devices_[0], Bytes::gib(1)));
  first_.hangs = true;
  devices_.note_hung_token(first_);
  EXPECT_FALSE(devices_.room().has_start_slot(devices_[0], Bytes::gib(1)));
}

}  // namespace
}  // namespace lambent::scheduling
