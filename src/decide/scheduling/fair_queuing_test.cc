// What fair queuing owes to devices that come and go, and to several of them: a flow that waits for
// one delays none on the others. For every order within T.
#include "decide/scheduling/fair_queuing.h"

#include <gtest/gtest.h>

#include "decide/scheduling/make_policy.h"

namespace lambent::scheduling {
namespace {

constexpr Duration kOverRun = seconds(10);

// Two devices with two tokens each, the first twice as large; functions of 1 GiB that take a second
// and 100 ms to start.
class TwoDevices : public testing::TestWithParam<std::string_view> {
 protected:
  TwoDevices() : policy_(make_policy(GetParam(), options()).value()) {
    FleetOptions options;
    for (const uint64_t gib : {64, 32}) {
      options.devices.push_back({.id = DeviceId{static_cast<uint32_t>(gib == 64 ? 1 : 2)},
                                 .memory = Bytes::gib(gib),
                                 .tokens = 2,
                                 .contexts = 64});
    }
    fleet_.emplace(options);
    flows_.resize(60);
    for (uint32_t i = 1; i < flows_.size(); ++i) {
      flows_[i].registered = true;
      flows_[i].device_memory = Bytes::gib(i == kLarge ? 48 : 1);
      flows_[i].execution = RunningMean(seconds(1), 1);
      flows_[i].cold_start = RunningMean(milliseconds(100), 1);
      policy_->flow_changed(view(), FunctionId{i}, now_);
    }
  }

  static PolicyOptions options() {
    PolicyOptions options;
    options.mqfq.over_run = kOverRun;
    return options;
  }
  View view() { return {flows_, *fleet_, tenants_}; }
  void make_healthy(uint32_t device, bool healthy) {
    fleet_->set_reading(device, 0, healthy);
    policy_->health_changed(view(), now_);
  }
  void submit(uint32_t function) {
    if (++flows_[function].pending == 1) flows_[function].oldest_since = now_;
    policy_->enqueued(view(), FunctionId{function}, now_);
  }
  // A sandbox of the function that runs there and holds a token.
  SandboxSlot run(uint32_t function, uint32_t device) {
    const SandboxSlot slot = fleet_->plan(SandboxId{++sandboxes_}, FunctionId{function},
                                          flows_[function], Place{device}, now_);
    fleet_->start(slot, now_);
    fleet_->run(slot, now_);
    return slot;
  }
  // Both devices without a token left, with functions 2 to 5.
  void fill() {
    for (uint32_t i = 2; i < 6; ++i) busy_.push_back(run(i, i / 4));
  }
  void rest(SandboxSlot slot) {
    const FunctionId function = fleet_->sandbox(slot).function;
    fleet_->rest(slot, now_);
    policy_->places_changed(view(), function, now_);
  }
  // A run of the first in its queue, from its dispatch to its end.
  void serve(uint32_t function) {
    --flows_[function].pending;
    ++flows_[function].in_flight;
    policy_->dispatched(view(), FunctionId{function}, now_);
    --flows_[function].in_flight;
    policy_->finished(view(), FunctionId{function}, now_);
  }
  Duration virtual_time(uint32_t function) {
    return policy_->status(view(), FunctionId{function}, now_).virtual_time;
  }
  Decision decide() { return policy_->decide(view(), now_); }

  static constexpr uint32_t kLarge = 1;  // fits only the first device

  std::unique_ptr<Policy> policy_;
  std::optional<Fleet> fleet_;
  Flows flows_;
  Tenants tenants_;
  uint64_t sandboxes_ = 0;
  std::vector<SandboxSlot> busy_;
  Instant now_{};
};
INSTANTIATE_TEST_SUITE_P(Policies, TwoDevices, testing::Values("density", "mqfq-sticky"),
                         [](const auto& info) {
                           return std::string(info.param == "density" ? "density" : "mqfq_sticky");
                         });

TEST_P(TwoDevices, WhoWaitsForADeviceThatIsAwayThrottlesNobody) {
  submit(kLarge);
  make_healthy(0, false);
  run(3, 1);  // the second device has something to do, and a token left
  for (int i = 0; i < 100; ++i) {
    submit(2);
    const Decision decision = decide();
    ASSERT_TRUE(decision.dispatch) << "after " << i << " s of service";
    ASSERT_EQ(decision.function, FunctionId{2});
    serve(2);
  }
  EXPECT_EQ(policy_->conserving_dispatches(), 0u);
  EXPECT_GE(policy_->global_virtual_time(), seconds(90));
  std::vector<FunctionId> look_ahead;
  policy_->look_ahead(view(), 4, look_ahead);
  EXPECT_EQ(look_ahead, std::vector<FunctionId>{});
}

TEST_P(TwoDevices, WhenItIsBackTheyStartWithTheOthersAndEarnedNothing) {
  make_healthy(0, false);
  submit(kLarge);
  submit(2);
  submit(2);
  serve(2);
  ASSERT_EQ(policy_->global_virtual_time(), seconds(1));
  make_healthy(0, true);
  EXPECT_EQ(virtual_time(kLarge), seconds(1));
  flows_[2].pending = 0;
  policy_->flow_changed(view(), FunctionId{2}, now_);
  const Decision decision = decide();
  ASSERT_TRUE(decision.dispatch);
  EXPECT_EQ(decision.function, FunctionId{kLarge});
  EXPECT_EQ(decision.place.device, 0u);
}

TEST_P(TwoDevices, WhileAllAreAwayNobodyLosesItsPlace) {
  submit(2);
  submit(2);
  submit(3);
  serve(2);
  make_healthy(0, false);
  make_healthy(1, false);
  EXPECT_FALSE(decide().dispatch);
  make_healthy(1, true);
  EXPECT_EQ(virtual_time(2), seconds(1));
  EXPECT_EQ(virtual_time(3), seconds(0));
  EXPECT_TRUE(decide().dispatch);
}

TEST_P(TwoDevices, FortyThatAreWarmOnAFullDeviceHideNobodyWhoFitsTheOther) {
  constexpr uint32_t kCold = 59;
  for (uint32_t i = 10; i < 50; ++i) rest(run(i, 0));
  run(2, 0);
  run(3, 0);
  run(4, 1);
  for (uint32_t i = 10; i < 50; ++i) submit(i);
  now_ += seconds(1);
  flows_[kCold].cold_start = RunningMean(seconds(100), 1);
  submit(kCold);
  const Decision decision = decide();
  ASSERT_TRUE(decision.dispatch);
  EXPECT_EQ(decision.function, FunctionId{kCold});
  EXPECT_EQ(decision.place.device, 1u);
}

TEST_P(TwoDevices, WhereNoTokenIsLeftNobodyIsAskedWhoIsWarm) {
  for (uint32_t i = 10; i < 50; ++i) rest(run(i, i % 2));
  fill();
  for (uint32_t i = 10; i < 50; ++i) submit(i);
  const Decision nothing = decide();
  EXPECT_FALSE(nothing.dispatch);
  EXPECT_EQ(nothing.reason, WaitReason::kNoToken);
  // The fleet tells its changes to a policy that keeps notes of whom it asked.
  const uint64_t told = fleet_->changes().count();
  rest(busy_.front());
  EXPECT_EQ(fleet_->changes().count(), told);
  const Decision decision = decide();
  ASSERT_TRUE(decision.dispatch);
  EXPECT_EQ(decision.place.device, 0u);
}

TEST_P(TwoDevices, WhereNoTokenIsLeftOneThatIsColdMayStartBesideThem) {
  FleetOptions options = fleet_->options();
  options.starts_outside_tokens = 1;
  fleet_.emplace(options);
  for (uint32_t i = 10; i < 50; ++i) rest(run(i, i % 2));
  fill();
  for (uint32_t i = 10; i < 50; ++i) submit(i);
  ASSERT_FALSE(decide().dispatch);
  // One of those that wait loses its sandbox, and with it what it waited for.
  fleet_->stop(fleet_->idle().newest_of(FunctionId{30}), now_);
  policy_->places_changed(view(), FunctionId{30}, now_);
  const Decision decision = decide();
  ASSERT_TRUE(decision.dispatch);
  EXPECT_EQ(decision.function, FunctionId{30});
  EXPECT_EQ(decision.place.warm, kNoSandbox);
}

TEST_P(TwoDevices, AFunctionOfWhichTenVersionsAreServedHasOneShare) {
  constexpr uint32_t kFunction = 10;
  constexpr uint32_t kOther = 30;
  for (uint32_t i = kFunction + 1; i <= kFunction + 10; ++i) {
    flows_[i].account = FunctionId{kFunction};
    policy_->flow_changed(view(), FunctionId{i}, now_);
  }
  int served = 0;
  int of_other = 0;
  for (int each = 0; each < 2; ++each) {  // so that no queue is ever empty
    for (uint32_t i = kFunction; i <= kFunction + 10; ++i) submit(i);
    submit(kOther);
  }
  for (; served < 4000; ++served) {
    const Decision decision = decide();
    ASSERT_TRUE(decision.dispatch) << "after " << served;
    serve(decision.function.value);
    submit(decision.function.value);
    of_other += decision.function.value == kOther ? 1 : 0;
  }
  // Each run is charged a second. Shares differ by 2T and one charge at most, and T is at most ten
  // times what it was set to. With a share for each version the other one would have a twelfth.
  EXPECT_NEAR(of_other, served / 2, 401);
}

TEST_P(TwoDevices, WhatAVersionIsChargedItsFunctionIsToo) {
  flows_[11].account = FunctionId{10};
  policy_->flow_changed(view(), FunctionId{11}, now_);
  submit(11);
  serve(11);
  EXPECT_EQ(virtual_time(10), seconds(1));
  submit(10);
  serve(10);
  EXPECT_EQ(virtual_time(11), seconds(2));
  EXPECT_EQ(virtual_time(12), Duration(0)) << "another function";
}

}  // namespace
}  // namespace lambent::scheduling
