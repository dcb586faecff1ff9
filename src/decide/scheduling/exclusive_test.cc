#include "decide/scheduling/exclusive.h"

#include <gtest/gtest.h>

namespace lambent::scheduling {
namespace {

TEST(Exclusive, MakesEachDeviceOneThatDoesOneThingAtATime) {
  FleetOptions options;
  options.devices.push_back({.id = DeviceId{1},
                             .memory = Bytes::gib(16),
                             .tokens = 4,
                             .contexts = 32,
                             .by_utilisation = UtilisationOptions{0.9, 4}});
  options.memory_rule = MemoryRule::kMoveIdle;
  options.starts_outside_tokens = 2;
  ExclusivePolicy().adapt(options);
  EXPECT_EQ(options.devices[0].tokens, 1u);
  EXPECT_EQ(options.devices[0].contexts, 1u);
  EXPECT_FALSE(options.devices[0].by_utilisation.has_value());
  EXPECT_EQ(options.memory_rule, MemoryRule::kEverySandbox);
  EXPECT_EQ(options.starts_outside_tokens, 0u);
}

// Two devices and functions 1 to 3, of which nothing runs: only requests decide whose they are.
class ExclusivePools : public testing::Test {
 protected:
  ExclusivePools() {
    FleetOptions options;
    for (uint32_t i = 1; i <= 2; ++i) {
      options.devices.push_back({.id = DeviceId{i}, .memory = Bytes::gib(16)});
    }
    policy_.adapt(options);
    fleet_.emplace(options);
    flows_.resize(4);
    for (uint32_t i = 1; i <= 3; ++i) {
      flows_[i].registered = true;
      flows_[i].device_memory = Bytes::gib(1);
      flows_[i].max_concurrency = 4;
      policy_.flow_changed(view(), FunctionId{i}, now_);
    }
  }

  View view() { return {flows_, *fleet_, tenants_}; }
  void submit(uint32_t function) {
    Flow& flow = flows_[function];
    if (++flow.pending == 1) flow.oldest = ++arrivals_;
    policy_.enqueued(view(), FunctionId{function}, now_);
  }
  void withdraw(uint32_t function) {
    --flows_[function].pending;
    policy_.flow_changed(view(), FunctionId{function}, now_);
  }
  WaitReason waits(uint32_t function) { return policy_.why_waiting(view(), FunctionId{function}); }

  ExclusivePolicy policy_;
  std::optional<Fleet> fleet_;
  Flows flows_;
  Tenants tenants_;
  uint64_t arrivals_ = 0;
  Instant now_{};
};

TEST_F(ExclusivePools, ADeviceOnItsWayCannotBeTakenOnBeforeItHasServed) {
  submit(1);
  submit(2);
  submit(3);
  EXPECT_EQ(waits(1), WaitReason::kPoolHandover);
  EXPECT_EQ(waits(2), WaitReason::kPoolHandover);
  EXPECT_EQ(waits(3), WaitReason::kBehindOthers);
}

TEST_F(ExclusivePools, AWithdrawnRequestLeavesItsDeviceToOthers) {
  submit(1);
  submit(2);
  submit(3);
  withdraw(1);
  const Decision decision = policy_.decide(view(), now_);
  ASSERT_TRUE(decision.dispatch);
  EXPECT_EQ(decision.function, FunctionId{2});
  EXPECT_EQ(waits(3), WaitReason::kPoolHandover);
}

TEST_F(ExclusivePools, ADeviceThatDoesNotAnswerIsNobodys) {
  submit(1);
  submit(2);
  fleet_->set_reading(0, 0, false);
  const Decision decision = policy_.decide(view(), now_);
  ASSERT_TRUE(decision.dispatch);
  EXPECT_EQ(decision.function, FunctionId{2});
  EXPECT_EQ(decision.place.device, 1u);
  EXPECT_EQ(waits(1), WaitReason::kBehindOthers);
  fleet_->set_reading(1, 0, false);
  EXPECT_FALSE(policy_.decide(view(), now_).dispatch);
  EXPECT_EQ(waits(1), WaitReason::kNoDevice);
}

}  // namespace
}  // namespace lambent::scheduling
