#include "sim/simulator/world_accounts.h"

#include <gtest/gtest.h>

namespace lambent::simulator {
namespace {

using State = WorldAccounts::State;
using Process = WorldAccounts::Process;
using Where = Process::Where;

constexpr SandboxId kSandbox{1};
constexpr FunctionId kFunction{2};

class WorldAccountsTest : public testing::Test {
 protected:
  WorldAccountsTest() {
    limits_.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
    limits_.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16)}};
    accounts_ = std::make_unique<WorldAccounts>(limits_);
    Process process;
    process.function = kFunction;
    process.device = 1;
    process.memory = Bytes::gib(4);
    accounts_->add(kSandbox, process);
  }
  Process& process() { return accounts_->processes.at(kSandbox); }
  const WorldAccounts::Device& device() const { return accounts_->devices.at(1); }

  dispatch::DispatchOptions limits_;
  std::unique_ptr<WorldAccounts> accounts_;
};

TEST_F(WorldAccountsTest, ASandboxCountsOnItsDeviceAndWithItsFunctionFromItsStartToItsEnd) {
  EXPECT_EQ(device().processes, 1u);
  EXPECT_EQ(device().places, 1u);
  EXPECT_EQ(device().memory, Bytes::gib(4));
  EXPECT_EQ(accounts_->gpu_processes, 1u);
  EXPECT_EQ(accounts_->function(kFunction).starting, 1u);
  accounts_->change(process(), State::kBusy);
  EXPECT_EQ(device().at_work, 1u);
  EXPECT_EQ(accounts_->function(kFunction).starting, 0u);
  EXPECT_EQ(accounts_->function(kFunction).busy, 1u);
  accounts_->change(process(), State::kIdle);
  EXPECT_EQ(device().idle, 1u);
  EXPECT_EQ(device().idle_memory, Bytes::gib(4));
  EXPECT_EQ(device().places, 0u);
  accounts_->remove(kSandbox);
  EXPECT_EQ(device().processes, 0u);
  EXPECT_EQ(device().memory, Bytes(0));
  EXPECT_EQ(accounts_->gpu_idle, 0u);
  EXPECT_TRUE(accounts_->processes.empty());
}

TEST_F(WorldAccountsTest, AStoppedSandboxKeepsWhatItHoldsUntilItIsGone) {
  accounts_->change(process(), State::kBusy);
  accounts_->change(process(), State::kStopping);
  EXPECT_EQ(device().places, 1u);
  EXPECT_EQ(device().memory, Bytes::gib(4));
  EXPECT_EQ(accounts_->gpu_stopping, 1u);
}

TEST_F(WorldAccountsTest, MemoryOnItsWayOutCountsOnBothSides) {
  accounts_->change(process(), State::kIdle);
  accounts_->move(process(), Where::kMovingOut, false);
  EXPECT_EQ(device().memory, Bytes::gib(4));
  EXPECT_EQ(accounts_->on_host, Bytes::gib(4));
  accounts_->move(process(), Where::kOut, false);
  EXPECT_EQ(device().memory, Bytes(0));
  EXPECT_EQ(accounts_->on_host, Bytes::gib(4));
  EXPECT_EQ(device().without_context, 0u);
  accounts_->move(process(), Where::kOut, true);
  EXPECT_EQ(device().without_context, 1u);
  accounts_->move(process(), Where::kIn, false);
  EXPECT_EQ(device().memory, Bytes::gib(4));
  EXPECT_EQ(accounts_->on_host, Bytes(0));
}

TEST_F(WorldAccountsTest, WhatIsOffloadedCountsOnTheHostUntilItIsFetched) {
  process().offloaded = Bytes::gib(3);
  accounts_->change(process(), State::kBusy);
  EXPECT_EQ(device().memory, Bytes::gib(1));
  EXPECT_EQ(accounts_->on_host, Bytes::gib(3));
  accounts_->fetch(process(), Bytes::gib(2));
  EXPECT_EQ(device().memory, Bytes::gib(3));
  EXPECT_EQ(accounts_->on_host, Bytes::gib(1));
}

TEST_F(WorldAccountsTest, OnlyInvocationsThatDoNotRunBeginToWaitAgain) {
  accounts_->live[InvocationId{1, 1}] = {.function = kFunction};
  accounts_->live[InvocationId{1, 2}] = {.function = kFunction, .running = true};
  accounts_->function(kFunction).waiting = 1;
  accounts_->restart_waits(kFunction, Instant(seconds(7)));
  EXPECT_EQ((accounts_->live[InvocationId{1, 1}].waiting_since), Instant(seconds(7)));
  EXPECT_EQ((accounts_->live[InvocationId{1, 2}].waiting_since), Instant());
}

}  // namespace
}  // namespace lambent::simulator
