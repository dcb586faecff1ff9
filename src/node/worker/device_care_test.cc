#include "node/worker/device_care.h"

#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

using protocol::DeviceHealth;
using protocol::FaultGravity;
using protocol::MemoryRepair;

class Care : public testing::Test {
 protected:
  void read(protocol::DeviceReading reading) { care.read(kGpu, reading, ++now); }
  void xid(uint32_t number, FaultGravity gravity) {
    care.fault(kGpu, {0, number, gravity, "what it is"}, ++now);
  }
  DeviceState state() const { return care.status(kGpu).state; }
  const std::string& reason() const { return care.status(kGpu).reason; }

  static constexpr DeviceId kGpu{1};
  DeviceCare care;
  Duration now = seconds(100);
};

TEST_F(Care, ADeviceThatAnswersServes) {
  EXPECT_TRUE(care.serves(kGpu)) << "before anything was heard of it";
  read({.busy_percent = 25, .memory_used = Bytes(7)});
  EXPECT_TRUE(care.serves(kGpu));
  const dispatch::DeviceReading event = care.event(kGpu);
  EXPECT_EQ(event.device, kGpu);
  EXPECT_EQ(event.utilisation, 0.25);
  EXPECT_EQ(event.memory_used, Bytes(7));
  EXPECT_TRUE(event.healthy);
  EXPECT_FALSE(event.lost);
}

TEST_F(Care, DispatchIsToldOfAnAverageWhereOneIsAskedFor) {
  DeviceCare averaging(seconds(1));
  averaging.read(kGpu, {.busy_percent = 0}, seconds(100));
  averaging.read(kGpu, {.busy_percent = 100}, seconds(101));
  EXPECT_NEAR(averaging.event(kGpu).utilisation, 0.632, 1e-3);
  EXPECT_EQ(averaging.status(kGpu).reading.busy_percent, 100);
}

TEST_F(Care, OneThatDoesNotAnswerIsSilentAndKeepsWhatItHas) {
  read({.health = DeviceHealth::kUnreadable});
  EXPECT_EQ(state(), DeviceState::kSilent);
  EXPECT_FALSE(care.event(kGpu).healthy);
  EXPECT_FALSE(care.event(kGpu).lost);
  read({});
  EXPECT_TRUE(care.serves(kGpu));
}

TEST_F(Care, WhatAnApplicationDidDrainsNothingAndIsCounted) {
  read({});
  xid(31, FaultGravity::kApplication);
  xid(31, FaultGravity::kApplication);
  xid(63, FaultGravity::kNotice);
  EXPECT_TRUE(care.serves(kGpu));
  EXPECT_EQ(care.status(kGpu).xids, (std::map<uint32_t, uint64_t>{{31, 2}, {63, 1}}));
}

TEST_F(Care, OnlySoManyDifferentXidsAreCounted) {
  for (uint32_t number = 1; number <= 300; ++number) xid(number, FaultGravity::kNotice);
  xid(256, FaultGravity::kNotice);
  EXPECT_EQ(care.status(kGpu).xids.size(), 256u);
  EXPECT_EQ(care.status(kGpu).xids.at(256), 2u);
}

TEST_F(Care, AnXidOfTheDeviceDrainsItUntilTheOperatorSaysThatItIsWell) {
  read({});
  xid(119, FaultGravity::kDevice);
  const Duration drained = now;
  EXPECT_EQ(state(), DeviceState::kDrained);
  EXPECT_EQ(reason(), "Xid 119: what it is");
  EXPECT_TRUE(care.event(kGpu).lost);
  xid(62, FaultGravity::kDevice);
  read({.health = DeviceHealth::kUnreadable});
  read({});
  EXPECT_EQ(reason(), "Xid 119: what it is") << "it answers, and was not reset";
  EXPECT_EQ(care.status(kGpu).since, drained);
  EXPECT_TRUE(care.undrain(kGpu, ++now).ok());
  EXPECT_TRUE(care.serves(kGpu));
  EXPECT_EQ(reason(), "");
}

TEST_F(Care, ALostDeviceIsWellOnceItAnswersWhateverItWasLostBy) {
  xid(79, FaultGravity::kDevice);
  read({.health = DeviceHealth::kLost});
  EXPECT_EQ(state(), DeviceState::kLost);
  EXPECT_EQ(reason(), "Xid 79: what it is");
  EXPECT_EQ(care.undrain(kGpu, ++now).error().code, ErrorCode::kFailedPrecondition);
  read({.health = DeviceHealth::kUnreadable});
  read({.health = DeviceHealth::kLost});
  read({});
  EXPECT_TRUE(care.serves(kGpu));
}

TEST_F(Care, ADeviceThatFellOffTheBusIsWellOnceItAnswersAlsoIfNoReadingSawItLost) {
  xid(79, FaultGravity::kDevice);
  EXPECT_EQ(state(), DeviceState::kDrained);
  read({.health = DeviceHealth::kUnreadable});
  EXPECT_EQ(state(), DeviceState::kDrained);
  read({});
  EXPECT_TRUE(care.serves(kGpu));
  xid(119, FaultGravity::kDevice);
  read({});
  EXPECT_EQ(state(), DeviceState::kDrained) << "that one was another fault";
}

TEST_F(Care, OverARestartOfTheWorkerAnXidStaysUntilTheDeviceIsKnownToBeReset) {
  const auto restart = [this] {
    const catalog::DeviceRecord kept = care.record(kGpu);
    care = DeviceCare();
    care.restore(kGpu, kept, now);
  };
  xid(119, FaultGravity::kDevice);
  restart();
  read({});
  EXPECT_EQ(state(), DeviceState::kDrained) << "it was not reset with the worker";
  ASSERT_TRUE(care.undrain(kGpu, now).ok());
  xid(79, FaultGravity::kDevice);
  restart();
  EXPECT_EQ(state(), DeviceState::kDrained);
  read({.health = DeviceHealth::kUnreadable});
  EXPECT_EQ(state(), DeviceState::kDrained);
  read({});
  EXPECT_TRUE(care.serves(kGpu)) << "off the bus it would not answer";
  xid(119, FaultGravity::kDevice);
  xid(79, FaultGravity::kDevice);
  EXPECT_EQ(reason(), "Xid 79: what it is");
  xid(119, FaultGravity::kDevice);
  restart();
  EXPECT_EQ(reason(), "Xid 79: what it is");
  read({});
  EXPECT_TRUE(care.serves(kGpu)) << "the other one came before it fell off";
}

TEST_F(Care, ErrorsThatEccCannotCorrectDrainUntilTheReset) {
  read({});
  read({.uncorrected_errors = 2, .repair = MemoryRepair::kPending});
  EXPECT_EQ(state(), DeviceState::kDrained);
  EXPECT_EQ(reason(), "2 errors of memory that ECC could not correct");
  EXPECT_NE(care.status(kGpu).notice, "");
  read({.health = DeviceHealth::kUnreadable});
  EXPECT_EQ(state(), DeviceState::kDrained);
  read({.uncorrected_errors = 2});
  EXPECT_EQ(state(), DeviceState::kDrained);
  read({.uncorrected_errors = 0});
  EXPECT_TRUE(care.serves(kGpu));
  read({.uncorrected_errors = 1});
  EXPECT_EQ(state(), DeviceState::kDrained) << "the next is as bad";
}

TEST_F(Care, WhatTheOperatorAcceptedDoesNotDrainAgainAndMoreDoes) {
  read({.uncorrected_errors = 2, .repair = MemoryRepair::kFailed});
  ASSERT_TRUE(care.undrain(kGpu, ++now).ok());
  read({.uncorrected_errors = 2, .repair = MemoryRepair::kFailed});
  EXPECT_TRUE(care.serves(kGpu));
  read({.uncorrected_errors = 3, .repair = MemoryRepair::kFailed});
  EXPECT_EQ(state(), DeviceState::kDrained);
}

TEST_F(Care, WhatNvmlDidNotTellForgivesNothingAndDrainsNothing) {
  read({.uncorrected_errors = 2});
  read({});
  EXPECT_EQ(state(), DeviceState::kDrained) << "a call that failed is no reset";
  read({.uncorrected_errors = 2});
  ASSERT_TRUE(care.undrain(kGpu, ++now).ok());
  read({});
  read({.uncorrected_errors = 2});
  EXPECT_TRUE(care.serves(kGpu)) << "so many were accepted";
  EXPECT_EQ(care.status(kGpu).reading.uncorrected_errors, 2u);

  read({.repair = MemoryRepair::kFailed});
  ASSERT_TRUE(care.undrain(kGpu, ++now).ok());
  read({});
  read({.repair = MemoryRepair::kFailed});
  EXPECT_TRUE(care.serves(kGpu));
}

TEST_F(Care, ADeviceWhoseUtilisationWasNotToldIsAsBusyAsItWas) {
  read({.busy_percent = 90});
  read({.knows_utilisation = false});
  EXPECT_EQ(care.event(kGpu).utilisation, 0.9);
  read({.health = DeviceHealth::kUnreadable});
  EXPECT_EQ(care.event(kGpu).utilisation, 0.9);
  read({.busy_percent = 10});
  EXPECT_EQ(care.event(kGpu).utilisation, 0.1);
}

TEST_F(Care, ARepairThatFailedDrainsAndOneThatIsPendingIsANotice) {
  read({.repair = MemoryRepair::kPending});
  EXPECT_TRUE(care.serves(kGpu));
  EXPECT_NE(care.status(kGpu).notice, "");
  read({.repair = MemoryRepair::kFailed});
  EXPECT_EQ(reason(), "memory that failed could not be replaced");
}

TEST_F(Care, WhatTheOperatorDrainsStaysSoOverAReset) {
  read({});
  care.drain(kGpu, "new cooling", ++now);
  EXPECT_EQ(state(), DeviceState::kDrained);
  EXPECT_EQ(reason(), "by the operator: new cooling");
  read({.health = DeviceHealth::kLost});
  EXPECT_EQ(state(), DeviceState::kLost);
  read({});
  EXPECT_EQ(reason(), "by the operator: new cooling");
  EXPECT_TRUE(care.undrain(kGpu, ++now).ok());
  EXPECT_TRUE(care.serves(kGpu));
}

TEST_F(Care, DevicesAreJudgedApart) {
  xid(48, FaultGravity::kDevice);
  EXPECT_FALSE(care.serves(kGpu));
  EXPECT_TRUE(care.serves(DeviceId(2)));
}

}  // namespace
}  // namespace lambent::worker
