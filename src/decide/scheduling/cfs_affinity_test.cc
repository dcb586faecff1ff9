#include "decide/scheduling/cfs_affinity.h"

#include <gtest/gtest.h>

namespace lambent::scheduling {
namespace {

// Two devices with a token each, and functions 1 to 3 with a warm sandbox where a test puts it.
class CfsAffinity : public testing::Test {
 protected:
  CfsAffinity() : policy_(CfsOptions{}) {
    FleetOptions options;
    for (uint32_t i = 1; i <= 2; ++i) {
      options.devices.push_back({.id = DeviceId{i}, .memory = Bytes::gib(16), .tokens = 1});
    }
    options.memory_rule = MemoryRule::kMoveIdle;
    fleet_.emplace(options);
    flows_.resize(4);
    for (uint32_t i = 1; i <= 3; ++i) {
      flows_[i].registered = true;
      flows_[i].device_memory = Bytes::gib(1);
      flows_[i].execution = RunningMean(seconds(1), 1);
      policy_.flow_changed(view(), FunctionId{i}, now_);
    }
  }

  View view() { return {flows_, *fleet_, tenants_}; }
  SandboxSlot warm(uint32_t function, uint32_t device) {
    const FunctionId id{function};
    const SandboxSlot slot =
        fleet_->plan(SandboxId{++sandboxes_}, id, flows_[function], Place{device}, now_);
    fleet_->start(slot, now_);
    fleet_->rest(slot, now_);
    policy_.places_changed(view(), id, now_);
    return slot;
  }
  void submit(uint32_t function) {
    if (++flows_[function].pending == 1) flows_[function].oldest = ++arrivals_;
    policy_.enqueued(view(), FunctionId{function}, now_);
  }
  // So much GPU time as if the function had just had it.
  void charge(uint32_t function, Duration time) {
    ++flows_[function].in_flight;
    policy_.dispatched(view(), FunctionId{function}, now_);
    flows_[function].execution.learn(time);
    --flows_[function].in_flight;
    policy_.finished(view(), FunctionId{function}, now_);
  }

  CfsAffinityPolicy policy_;
  std::optional<Fleet> fleet_;
  Flows flows_;
  Tenants tenants_;
  uint64_t sandboxes_ = 0;
  uint64_t arrivals_ = 0;
  Instant now_{};
};

TEST_F(CfsAffinity, EachGoesToTheDeviceWhereItsMemoryIs) {
  warm(1, 1);
  warm(2, 0);
  submit(1);
  submit(2);
  const Decision decision = policy_.decide(view(), now_);
  ASSERT_TRUE(decision.dispatch);
  EXPECT_NE(decision.place.warm, kNoSandbox);
  EXPECT_EQ(decision.place.device, decision.function == FunctionId{1} ? 1u : 0u);
}

TEST_F(CfsAffinity, MemoryThatWasMovedOffIsNoAffinity) {
  const SandboxSlot slot = warm(1, 0);
  warm(2, 0);
  submit(1);
  submit(2);
  charge(2, milliseconds(500));
  ASSERT_EQ(policy_.decide(view(), now_).function, FunctionId{1});
  fleet_->memory().begin_move_out(slot, false);
  policy_.places_changed(view(), FunctionId{1}, now_);
  fleet_->set_reading(1, 0, false);
  EXPECT_EQ(policy_.decide(view(), now_).function, FunctionId{2});
}

TEST_F(CfsAffinity, ANewClientStartsWithTheLeastOfThoseAtWork) {
  submit(1);
  charge(1, seconds(40));
  submit(2);
  EXPECT_EQ(policy_.status(view(), FunctionId{2}, now_).virtual_time,
            policy_.status(view(), FunctionId{1}, now_).virtual_time);
}

}  // namespace
}  // namespace lambent::scheduling
