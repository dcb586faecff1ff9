#include "decide/dispatch/kept_sandboxes.h"

#include <gtest/gtest.h>

#include "decide/dispatch/dispatcher.h"
#include "decide/scheduling/make_policy.h"

namespace lambent::dispatch {
namespace {

using scheduling::MemoryRule;
using scheduling::MemoryState;

constexpr FunctionId kF{1};
constexpr FunctionId kG{2};

// Two devices of 16 GiB, on which a function of 10 GiB finds room once.
class KeptSandboxesTest : public testing::Test {
 protected:
  void make(std::string_view policy = "density", MemoryRule rule = MemoryRule::kMoveIdle,
            Bytes host_memory = Bytes::gib(64)) {
    DispatchOptions options;
    options.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16)},
                             {.id = DeviceId{2}, .memory = Bytes::gib(16)}};
    options.fleet.memory_rule = rule;
    options.fleet.host_memory = host_memory;
    dispatcher_ =
        std::make_unique<Dispatcher>(options, std::move(scheduling::make_policy(policy)).value());
    deploy({.id = kF, .device_memory = Bytes::gib(10)});
    deploy({.id = kG, .device_memory = Bytes::gib(10)});
  }
  void deploy(FunctionProfile profile) {
    profile.tenant = TenantId{2};
    profile.max_concurrency = 8;
    give(FunctionRegistered{profile});
  }
  void give(const Event& event) {
    actions_.clear();
    dispatcher_->handle(event, now_ += milliseconds(1), actions_);
  }
  // Returns whether dispatch has it then.
  bool keep(SandboxReady sandbox) {
    sandbox.sandbox = dispatcher_->next_sandbox();
    give(sandbox);
    return dispatcher_->fleet().find(sandbox.sandbox).has_value();
  }
  const scheduling::Sandbox& sandbox(uint64_t id) const {
    return dispatcher_->fleet().sandbox(*dispatcher_->fleet().find(SandboxId{id}));
  }
  const scheduling::Device& device(uint32_t index) const {
    return dispatcher_->fleet().devices()[index];
  }
  template <typename Kind>
  const Kind* action() const {
    for (const Action& each : actions_) {
      if (const auto* found = std::get_if<Kind>(&each)) return found;
    }
    return nullptr;
  }

  std::unique_ptr<Dispatcher> dispatcher_;
  Instant now_{seconds(100)};
  std::vector<Action> actions_;
};

TEST_F(KeptSandboxesTest, OneWithItsMemoryInIsWarmOnItsDevice) {
  make();
  ASSERT_TRUE(keep({.kept_of = kF, .device = DeviceId{2}}));
  EXPECT_EQ(action<StartSandbox>(), nullptr);
  EXPECT_EQ(device(1).resident, Bytes::gib(10));
  EXPECT_EQ(device(0).resident, Bytes(0));
  give(InvocationSubmitted{{0, 1}, kF});
  const auto* started = action<StartInvocation>();
  ASSERT_NE(started, nullptr);
  EXPECT_EQ(started->sandbox, SandboxId{1});
  EXPECT_EQ(started->device, DeviceId{2});
  EXPECT_EQ(started->start, StartClass::kWarm);
}

TEST_F(KeptSandboxesTest, OneWithItsMemoryOutTakesWhatItLeftAndIsMovedInForItsCall) {
  make();
  ASSERT_TRUE(keep({.kept_of = kG, .device = DeviceId{1}}));
  ASSERT_TRUE(keep({.kept_of = kF,
                    .device = DeviceId{1},
                    .memory_is_out = true,
                    .left = Bytes::mib(300),
                    .offloaded = Bytes::gib(1)}));
  EXPECT_EQ(sandbox(2).memory_state, MemoryState::kOut);
  EXPECT_EQ(device(0).resident, Bytes::gib(10) + Bytes::mib(300));
  give(InvocationSubmitted{{0, 1}, kF});
  ASSERT_NE(action<StartInvocation>(), nullptr);
  EXPECT_EQ(action<StartInvocation>()->sandbox, SandboxId{2});
  EXPECT_EQ(action<StartInvocation>()->start, StartClass::kGpuCold);
  // The other one leaves first.
  ASSERT_NE(action<MoveMemoryOut>(), nullptr);
  EXPECT_EQ(action<MoveMemoryOut>()->sandbox, SandboxId{1});
  give(MemoryMoved{SandboxId{1}, MoveDirection::kOut, true, Bytes::gib(10), Bytes::mib(300)});
  ASSERT_NE(action<MoveMemoryIn>(), nullptr);
  EXPECT_EQ(action<MoveMemoryIn>()->sandbox, SandboxId{2});
}

TEST_F(KeptSandboxesTest, OneWithoutItsContextTakesNothing) {
  make();
  ASSERT_TRUE(keep({.kept_of = kF,
                    .device = DeviceId{1},
                    .memory_is_out = true,
                    .deep = true,
                    .left = Bytes::mib(300)}));
  EXPECT_EQ(device(0).resident, Bytes(0));
  EXPECT_EQ(device(0).without_context, 1u);
}

TEST_F(KeptSandboxesTest, WhatFindsNoRoomEndsAndNothingLeavesForIt) {
  make();
  ASSERT_TRUE(keep({.kept_of = kF, .device = DeviceId{1}}));
  EXPECT_FALSE(keep({.kept_of = kG, .device = DeviceId{1}}));
  EXPECT_TRUE(actions_.empty() || action<StopSandbox>() == nullptr);
  EXPECT_EQ(action<MoveMemoryOut>(), nullptr);
  // Its number is no other's.
  EXPECT_EQ(dispatcher_->next_sandbox(), SandboxId{3});
  give(DeviceTaken{DeviceId{2}, Bytes::gib(8)});
  EXPECT_FALSE(keep({.kept_of = kG, .device = DeviceId{2}})) << "executors have the memory";
}

TEST_F(KeptSandboxesTest, WhatDispatchWouldNotHaveStartedThereEnds) {
  make();
  deploy({.id = FunctionId{3}});  // without a GPU
  deploy({.id = FunctionId{4}, .device_memory = Bytes::gib(1), .gpu_count = 2});
  EXPECT_FALSE(keep({.kept_of = FunctionId{3}, .device = DeviceId{1}}));
  EXPECT_FALSE(keep({.kept_of = FunctionId{9}, .device = DeviceId{1}}));
  EXPECT_FALSE(keep({.kept_of = kF, .device = DeviceId{3}}));
  EXPECT_FALSE(keep({.kept_of = kF, .device = DeviceId{1}, .beside = 2}));
  EXPECT_FALSE(keep({.kept_of = FunctionId{4}, .device = DeviceId{1}}));
  EXPECT_FALSE(keep({.kept_of = FunctionId{4}, .device = DeviceId{1}, .beside = 1}));
  give(DeviceReading{.device = DeviceId{2}, .healthy = false});
  EXPECT_FALSE(keep({.kept_of = kF, .device = DeviceId{2}}));
  make("exclusive");
  EXPECT_FALSE(keep({.kept_of = kF, .device = DeviceId{1}}));
  make();
  give(DrainStarted{});
  EXPECT_FALSE(keep({.kept_of = kF, .device = DeviceId{1}}));
}

TEST_F(KeptSandboxesTest, ANumberThatIsNotTheNextIsIgnored) {
  make();
  give(SandboxReady{.sandbox = SandboxId{7}, .kept_of = kF, .device = DeviceId{1}});
  EXPECT_EQ(dispatcher_->counters().ignored_events, 1u);
  EXPECT_EQ(dispatcher_->next_sandbox(), SandboxId{1});
}

TEST_F(KeptSandboxesTest, OneOnSeveralDevicesHasItsMemoryOnEach) {
  make();
  deploy({.id = FunctionId{4}, .device_memory = Bytes::gib(6), .gpu_count = 2});
  ASSERT_TRUE(keep({.kept_of = FunctionId{4}, .device = DeviceId{1}, .beside = 2}));
  EXPECT_EQ(device(0).resident, Bytes::gib(6));
  EXPECT_EQ(device(1).resident, Bytes::gib(6));
  give(InvocationSubmitted{{0, 1}, FunctionId{4}});
  ASSERT_NE(action<StartInvocation>(), nullptr);
  EXPECT_EQ(action<StartInvocation>()->start, StartClass::kWarm);
}

TEST_F(KeptSandboxesTest, MemoryOfSeveralDevicesThatIsOutIsOutOfEachOfThem) {
  make("density", MemoryRule::kMoveIdle, Bytes::gib(11));
  deploy({.id = FunctionId{4}, .device_memory = Bytes::gib(6), .gpu_count = 2});
  SandboxReady out{.kept_of = FunctionId{4},
                   .device = DeviceId{1},
                   .beside = 2,
                   .memory_is_out = true,
                   .left = Bytes::mib(512)};
  // All that may be there counts: no more than the one device is known to have kept does not.
  EXPECT_FALSE(keep(out));
  out.left = Bytes::gib(1);
  ASSERT_TRUE(keep(out));
  EXPECT_EQ(device(0).resident, Bytes::gib(1));
  EXPECT_EQ(device(1).resident, Bytes::gib(1));
  EXPECT_EQ(dispatcher_->fleet().memory().on_host(), Bytes::gib(11));
  give(InvocationSubmitted{{0, 1}, FunctionId{4}});
  EXPECT_NE(action<MoveMemoryIn>(), nullptr);
  ASSERT_NE(action<StartInvocation>(), nullptr);
  EXPECT_EQ(action<StartInvocation>()->start, StartClass::kGpuCold);
}

TEST_F(KeptSandboxesTest, WhereMemoryDoesNotMoveItCountsForAdmission) {
  make("density", MemoryRule::kEverySandbox);
  ASSERT_TRUE(keep({.kept_of = kF, .device = DeviceId{1}}));
  EXPECT_EQ(device(0).committed, Bytes::gib(10));
  EXPECT_FALSE(keep({.kept_of = kG, .device = DeviceId{1}}));
  EXPECT_FALSE(keep({.kept_of = kG, .device = DeviceId{2}, .memory_is_out = true}));
}

TEST_F(KeptSandboxesTest, TheyCountForTheQuotasOfTheirTenant) {
  make();
  give(TenantChanged{.tenant = TenantId{2}, .gpu_memory = Bytes::gib(15)});
  EXPECT_TRUE(keep({.kept_of = kF, .device = DeviceId{1}}));
  // Of idle ones the one that was there leaves for it, as for any start.
  keep({.kept_of = kG, .device = DeviceId{2}});
  Bytes counted;
  for (const TenantStatus& tenant : dispatcher_->tenant_status(now_)) counted += tenant.gpu_memory;
  EXPECT_LE(counted, Bytes::gib(15));
}

}  // namespace
}  // namespace lambent::dispatch
