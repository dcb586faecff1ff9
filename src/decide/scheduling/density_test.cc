#include "decide/scheduling/density.h"

#include <gtest/gtest.h>

#include <string>

namespace lambent::scheduling {
namespace {

// One device with one token; functions 1 to 4 that take a second and as long to start, with a warm
// sandbox where a test puts it.
class Density : public testing::Test {
 protected:
  Density() : policy_({.over_run = seconds(1000)}, {}) {
    FleetOptions options;
    options.devices.push_back({.id = DeviceId{1}, .memory = Bytes::gib(16), .tokens = 1});
    options.memory_rule = MemoryRule::kMoveIdle;
    fleet_.emplace(options);
    flows_.resize(5);
    for (uint32_t i = 1; i <= 4; ++i) {
      flows_[i].registered = true;
      flows_[i].device_memory = Bytes::gib(1);
      takes(i, seconds(1), seconds(1));
      policy_.flow_changed(view(), FunctionId{i}, now_);
    }
  }

  View view() { return {flows_, *fleet_, tenants_}; }
  void takes(uint32_t function, Duration execution, Duration cold_start) {
    flows_[function].execution = RunningMean(execution, 1);
    flows_[function].cold_start = RunningMean(cold_start, 1);
  }
  SandboxSlot warm(uint32_t function) {
    const FunctionId id{function};
    const SandboxSlot slot =
        fleet_->plan(SandboxId{++sandboxes_}, id, flows_[function], Place{0}, now_);
    fleet_->start(slot, now_);
    fleet_->rest(slot, now_);
    policy_.places_changed(view(), id, now_);
    return slot;
  }
  void submit(uint32_t function, int times = 1) {
    for (int i = 0; i < times; ++i) {
      if (++flows_[function].pending == 1) flows_[function].oldest_since = now_;
      policy_.enqueued(view(), FunctionId{function}, now_);
    }
  }
  // So much GPU time as if the function had just had it.
  void charge(uint32_t function, Duration time) {
    const RunningMean before = flows_[function].execution;
    flows_[function].execution = RunningMean(time, 1);
    ++flows_[function].in_flight;
    policy_.dispatched(view(), FunctionId{function}, now_);
    --flows_[function].in_flight;
    flows_[function].execution = before;
    policy_.finished(view(), FunctionId{function}, now_);
  }
  uint32_t first() {
    const Decision decision = policy_.decide(view(), now_);
    return decision.dispatch ? decision.function.value : 0;
  }

  DensityPolicy policy_;
  std::optional<Fleet> fleet_;
  Flows flows_;
  Tenants tenants_;
  uint64_t sandboxes_ = 0;
  Instant now_{};
};

TEST_F(Density, TheShorterGoesFirst) {
  takes(2, milliseconds(100), seconds(1));
  submit(1);
  submit(2);
  EXPECT_EQ(first(), 2u);
}

TEST_F(Density, OfEqualOnesTheWarmOneGoesBeforeTheOneThatHasToStart) {
  submit(1);
  warm(2);
  submit(2);
  EXPECT_EQ(first(), 2u);
}

TEST_F(Density, AWarmSandboxThatIsStoppedCountsNoMore) {
  const SandboxSlot slot = warm(2);
  submit(1);
  submit(2);
  ASSERT_EQ(first(), 2u);
  fleet_->stop(slot, now_);
  policy_.places_changed(view(), FunctionId{2}, now_);
  EXPECT_EQ(first(), 1u);
}

TEST_F(Density, MemoryOnADeviceThatIsSilentCountsNoMore) {
  FleetOptions options = fleet_->options();
  options.devices.push_back({.id = DeviceId{2}, .memory = Bytes::gib(16), .tokens = 1});
  fleet_.emplace(options);
  takes(2, milliseconds(900), seconds(16));
  warm(2);
  submit(1);
  submit(2);
  ASSERT_EQ(first(), 2u);
  fleet_->set_reading(0, 0, false);
  policy_.health_changed(view(), now_);
  EXPECT_EQ(policy_.set_up_of(view(), FunctionId{2}), seconds(16));
  EXPECT_EQ(first(), 1u);
  fleet_->set_reading(0, 0, true);
  policy_.health_changed(view(), now_);
  EXPECT_EQ(first(), 2u);
}

TEST_F(Density, MemoryOnTheHostCostsItsWayBack) {
  takes(1, milliseconds(1000), seconds(9));
  takes(2, milliseconds(1050), seconds(9));
  const SandboxSlot slot = warm(1);
  warm(2);
  submit(1);
  submit(2);
  ASSERT_EQ(first(), 1u);
  fleet_->memory().begin_move_out(slot, false);
  fleet_->memory().end_move(slot, true, Bytes(0));
  policy_.places_changed(view(), FunctionId{1}, now_);
  EXPECT_EQ(policy_.set_up_of(view(), FunctionId{1}),
            from_seconds(static_cast<double>(Bytes::gib(1).count) / 10e9));
  EXPECT_EQ(first(), 2u);
}

TEST_F(Density, AColdStartIsWorthMoreWhenMoreWait) {
  takes(1, seconds(1), seconds(8));
  takes(2, seconds(2), seconds(4));
  submit(1, 1);
  submit(2, 1);
  ASSERT_EQ(first(), 2u) << "9 s for one against 6 s for one";
  submit(1, 3);
  EXPECT_EQ(policy_.cost_of(view(), FunctionId{1}), seconds(3));
  EXPECT_EQ(first(), 1u) << "12 s for four against 6 s for one";
}

TEST_F(Density, WaitingMakesUpForTwiceTheCostEveryTwentySeconds) {
  warm(1);
  warm(2);
  takes(1, seconds(4), seconds(1));
  takes(2, seconds(1), seconds(1));
  submit(1);
  now_ += seconds(40) - milliseconds(1);
  submit(2);
  EXPECT_EQ(first(), 2u) << "four times the cost, not yet 40 s";
  flows_[2].pending = 0;
  policy_.flow_changed(view(), FunctionId{2}, now_);
  now_ += milliseconds(2);
  submit(2);
  EXPECT_EQ(first(), 1u);
}

TEST_F(Density, TimeAloneChangesNoOrder) {
  warm(1);
  warm(2);
  takes(1, seconds(4), seconds(1));
  submit(1);
  now_ += seconds(39);
  submit(2);
  EXPECT_EQ(first(), 2u);
  now_ += seconds(10'000);
  EXPECT_EQ(first(), 2u);
}

TEST_F(Density, WithEqualCostsItIsFirstComeFirstServed) {
  for (const uint32_t function : {3, 1, 4, 2}) {
    warm(function);
    submit(function);
    now_ += milliseconds(1);
  }
  for (const uint32_t expected : {3, 1, 4, 2}) {
    EXPECT_EQ(first(), expected);
    flows_[expected].pending = 0;
    policy_.flow_changed(view(), FunctionId{expected}, now_);
  }
}

TEST_F(Density, AFunctionThatRunsComesAfterAllThatDoNot) {
  flows_[1].max_concurrency = 2;
  takes(1, milliseconds(1), milliseconds(1));
  takes(2, seconds(60), seconds(60));
  flows_[1].in_flight = 1;
  policy_.flow_changed(view(), FunctionId{1}, now_);
  submit(1);
  submit(2);
  EXPECT_EQ(first(), 2u);
}

TEST_F(Density, TwiceTheWeightIsHalfTheCost) {
  warm(1);
  warm(2);
  takes(1, milliseconds(1900), seconds(1));
  submit(1);
  submit(2);
  ASSERT_EQ(first(), 2u);
  flows_[1].weight = 2;
  policy_.flow_changed(view(), FunctionId{1}, now_);
  EXPECT_EQ(first(), 1u);
}

TEST_F(Density, AFunctionNeverSeenIsTakenToStartInASecondAndToRunForATenthOfT) {
  flows_[1].execution = {};
  flows_[1].cold_start = {};
  EXPECT_EQ(policy_.cost_of(view(), FunctionId{1}), seconds(101));
}

TEST_F(Density, WhoIsFurtherAheadThanTWaitsForTheOthersHoweverCheapItIs) {
  takes(1, milliseconds(1), milliseconds(1));
  submit(1);
  submit(2);
  charge(1, seconds(1001));
  EXPECT_EQ(first(), 2u);
  EXPECT_EQ(policy_.why_waiting(view(), FunctionId{1}), WaitReason::kThrottled);
  EXPECT_EQ(policy_.status(view(), FunctionId{1}, now_).state, FlowState::kThrottled);
  EXPECT_EQ(policy_.why_waiting(view(), FunctionId{2}), WaitReason::kBehindOthers);
}

TEST_F(Density, LooksAheadInTheOrderInWhichItServes) {
  takes(2, milliseconds(100), seconds(1));
  takes(3, milliseconds(10), seconds(1));
  for (const uint32_t function : {1, 2, 3}) {
    warm(function);
    submit(function);
  }
  std::vector<FunctionId> look_ahead;
  policy_.look_ahead(view(), 2, look_ahead);
  EXPECT_EQ(look_ahead, (std::vector<FunctionId>{FunctionId{3}, FunctionId{2}}));
}

// Cheap work without end, of which T would let a thousand seconds by: the costly one waits for no
// longer than its cost is worth, and never starves.
TEST_F(Density, ACostlyInvocationIsOvertakenForNoLongerThanTheRatioOfCostsSays) {
  warm(1);
  warm(2);
  takes(1, seconds(16), seconds(1));
  takes(2, milliseconds(125), seconds(1));
  submit(1);
  const Instant came = now_;
  while (first() == 2 || flows_[2].pending == 0) {
    ASSERT_LT(now_ - came, seconds(200));
    now_ += milliseconds(125);
    flows_[2].pending = 0;
    policy_.flow_changed(view(), FunctionId{2}, now_);
    submit(2);
  }
  // log2(16 / 0.125) = 7 times twenty seconds.
  EXPECT_GT(now_ - came, from_seconds(20 * (7 - 0.09)));
  EXPECT_LT(now_ - came, from_seconds(20 * (7 + 0.09) + 0.25));
}

// As it ships: two tokens and two start slots, a pool of three, on a device where contexts take
// turns or not.
class AdaptiveDensity : public testing::Test {
 protected:
  AdaptiveDensity() : AdaptiveDensity(false) {}
  explicit AdaptiveDensity(bool weighs_queue)
      : policy_({.over_run = seconds(20)}, {.adapts = true, .weighs_queue = weighs_queue}) {
    FleetOptions options;
    options.devices.push_back({.id = DeviceId{1}, .memory = Bytes::gib(64), .tokens = 2});
    options.memory_rule = MemoryRule::kMoveIdle;
    options.most_sandboxes = 3;
    options.starts_outside_tokens = 2;
    policy_.adapt(options);
    fleet_.emplace(options);
    flows_.resize(6);
    for (uint32_t i = 1; i <= 5; ++i) {
      flows_[i].registered = true;
      flows_[i].device_memory = Bytes::gib(1);
      flows_[i].max_concurrency = 10;
      flows_[i].execution = RunningMean(seconds(1), 1);
      flows_[i].cold_start = RunningMean(seconds(5), 1);
      policy_.flow_changed(view(), FunctionId{i}, now_);
    }
  }

  View view() { return {flows_, *fleet_, tenants_}; }
  SandboxSlot warm(uint32_t function) {
    const FunctionId id{function};
    const SandboxSlot slot =
        fleet_->plan(SandboxId{++sandboxes_}, id, flows_[function], Place{0}, now_);
    fleet_->start(slot, now_);
    fleet_->rest(slot, now_);
    policy_.places_changed(view(), id, now_);
    return slot;
  }
  // Two warm sandboxes, and runs apart and beside each other that take `longer` times as long.
  void learn(SandboxSlot one, SandboxSlot other, double longer) {
    for (int i = 0; i < 60; ++i) {
      const bool beside = i % 2 == 0;
      fleet_->run(one, now_);
      if (beside) fleet_->run(other, now_);
      pass(from_seconds(beside ? longer : 1));
      fleet_->rest(one, now_);
      if (!beside) fleet_->run(other, now_), pass(seconds(1));
      fleet_->rest(other, now_);
    }
    EXPECT_NEAR(fleet_->contention().slowdown(), longer - 1, 0.1);
  }
  void pass(Duration time) {
    now_ += time;
    fleet_->set_time(now_);
  }
  void submit(uint32_t function, int times = 1) {
    for (int i = 0; i < times; ++i) {
      if (++flows_[function].pending == 1) flows_[function].oldest_since = now_;
      policy_.enqueued(view(), FunctionId{function}, now_);
    }
  }
  void run(uint32_t function, SandboxSlot slot) {
    fleet_->run(slot, now_);
    ++flows_[function].in_flight;
    policy_.dispatched(view(), FunctionId{function}, now_);
  }
  uint32_t first() {
    const Decision decision = policy_.decide(view(), now_);
    return decision.dispatch ? decision.function.value : 0;
  }

  DensityPolicy policy_;
  std::optional<Fleet> fleet_;
  Flows flows_;
  Tenants tenants_;
  uint64_t sandboxes_ = 0;
  Instant now_{};
};

TEST_F(AdaptiveDensity, RunsTwoAtOnceWhereTheyHardlySlowEachOtherDown) {
  const SandboxSlot one = warm(1);
  learn(one, warm(2), 1.2);
  submit(2);
  run(1, one);
  EXPECT_EQ(first(), 2u);
}

TEST_F(AdaptiveDensity, LetsARunWaitForTheOneAtWorkWhereContextsTakeTurns) {
  const SandboxSlot one = warm(1);
  learn(one, warm(2), 2.1);
  submit(2);
  run(1, one);
  EXPECT_EQ(first(), 0u);
  EXPECT_EQ(policy_.why_waiting(view(), FunctionId{2}), WaitReason::kSlowsOthers);
  // And says when that may be over.
  const Instant then = fleet_->places().next_move();
  ASSERT_LT(then, now_ + seconds(10));
  pass(then - now_);
  while (first() == 0) pass(std::max(fleet_->places().next_move() - now_, Duration(1)));
  EXPECT_EQ(first(), 2u) << "the one at work is late";
  EXPECT_LT(now_ - then, seconds(10));
}

TEST_F(AdaptiveDensity, StillRunsAShortOneBesideALongOneWhereContextsTakeTurns) {
  const SandboxSlot one = warm(1);
  const SandboxSlot other = warm(2);
  learn(one, other, 2.1);
  flows_[3].execution = RunningMean(milliseconds(100), 1);
  warm(3);
  submit(2);
  submit(3);
  run(1, one);
  EXPECT_EQ(first(), 3u);
}

TEST_F(AdaptiveDensity, StartsNothingInThePlaceOfASandboxThatIsWaitedFor) {
  for (const uint32_t function : {1, 2, 3}) warm(function);
  const SandboxSlot at_work = fleet_->idle().newest_of(FunctionId{1});
  run(1, at_work);
  const SandboxSlot also = fleet_->idle().newest_of(FunctionId{2});
  run(2, also);
  submit(3);
  submit(4);
  flows_[4].oldest_since -= seconds(1000);
  policy_.flow_changed(view(), FunctionId{4}, now_);
  EXPECT_EQ(first(), 0u);
  EXPECT_EQ(policy_.why_waiting(view(), FunctionId{4}), WaitReason::kNoSandbox);
  // Nothing waits for it any more.
  flows_[3].pending = 0;
  policy_.flow_changed(view(), FunctionId{3}, now_);
  EXPECT_EQ(first(), 4u);
}

TEST_F(AdaptiveDensity, GetsASecondSandboxOnlyWhereThatIsWorthItsStart) {
  run(1, warm(1));
  submit(1, 5);
  pass(seconds(6));
  EXPECT_EQ(first(), 0u);
  EXPECT_EQ(policy_.why_waiting(view(), FunctionId{1}), WaitReason::kAtWork);
  submit(1, 45);
  EXPECT_EQ(first(), 1u);
}

TEST_F(AdaptiveDensity, LetsAFlowBeFurtherAheadWhileMoreWaits) {
  const auto charge = [&](Duration time) {
    flows_[1].execution = RunningMean(time, 1);
    ++flows_[1].in_flight;
    policy_.dispatched(view(), FunctionId{1}, now_);
    --flows_[1].in_flight;
    flows_[1].execution = RunningMean(seconds(1), 1);
    policy_.finished(view(), FunctionId{1}, now_);
  };
  submit(1);
  submit(2);
  charge(seconds(30));
  // The turns of the two take six seconds each.
  EXPECT_EQ(policy_.status(view(), FunctionId{1}, now_).state, FlowState::kThrottled);
  for (const uint32_t function : {3, 4, 5}) submit(function, 2);
  EXPECT_EQ(policy_.status(view(), FunctionId{1}, now_).state, FlowState::kActive);
  // Of a flow that floods no more counts than T.
  submit(5, 10'000);
  charge(seconds(170));
  EXPECT_EQ(policy_.status(view(), FunctionId{1}, now_).state, FlowState::kThrottled);
}

class WeighingDensity : public AdaptiveDensity {
 protected:
  WeighingDensity() : AdaptiveDensity(true) {}
};

// It is charged a second, and what it waits for is its own sandbox.
TEST_F(WeighingDensity, AFlowWhoseWorkIsAllAtWorkThrottlesNoOther) {
  const auto dispatch = [&](uint32_t function) {
    --flows_[function].pending;
    ++flows_[function].in_flight;
    policy_.dispatched(view(), FunctionId{function}, now_);
  };
  const auto virtual_time = [&](uint32_t function) {
    return policy_.status(view(), FunctionId{function}, now_).virtual_time;
  };
  submit(1);
  dispatch(1);
  for (int i = 0; i < 100; ++i) {
    submit(2);
    dispatch(2);
    --flows_[2].in_flight;
    policy_.finished(view(), FunctionId{2}, now_);
  }
  EXPECT_EQ(virtual_time(1), seconds(1));
  EXPECT_EQ(policy_.global_virtual_time(), seconds(99));
  EXPECT_EQ(policy_.conserving_dispatches(), 0u);
  // What comes now claims nothing for the time in which none of it waited: the other one is ahead
  // of it by a second.
  submit(1);
  EXPECT_EQ(virtual_time(1), seconds(99));
  submit(2);
  EXPECT_EQ(virtual_time(2), seconds(100));
}

// A warm one that takes four seconds, and two calls that take one and need a start of five: that is
// 3.5 s for each with one start, and 6 s with the one that follows it.
TEST_F(WeighingDensity, CountsTheSetUpOfWhatLeavesForAnother) {
  flows_[1].execution = RunningMean(seconds(4), 1);
  const SandboxSlot slot = warm(1);
  submit(2, 2);
  submit(1);
  EXPECT_EQ(policy_.set_up_of(view(), FunctionId{2}), seconds(10));
  EXPECT_EQ(first(), 1u);
  fleet_->memory().begin_move_out(slot, false);
  fleet_->memory().end_move(slot, true, Bytes(0));
  EXPECT_EQ(policy_.set_up_of(view(), FunctionId{1}),
            from_seconds(2 * static_cast<double>(Bytes::gib(1).count) / 10e9));
}

// As journals before state version 23 have it: weighs_queue without what returns.
TEST_F(WeighingDensity, CountsASetUpOnceWhereWhatReturnsIsNotWeighed) {
  const DensityPolicy before({}, {.adapts = true, .weighs_queue = true, .weighs_returns = false});
  flows_[2].cold_start = RunningMean(seconds(5), 1);
  submit(2);
  EXPECT_EQ(policy_.set_up_of(view(), FunctionId{2}), seconds(10));
  EXPECT_EQ(before.set_up_of(view(), FunctionId{2}), seconds(5));
  const SandboxSlot slot = warm(1);
  fleet_->memory().begin_move_out(slot, false);
  fleet_->memory().end_move(slot, true, Bytes(0));
  EXPECT_EQ(before.set_up_of(view(), FunctionId{1}),
            from_seconds(static_cast<double>(Bytes::gib(1).count) / 10e9));
  FleetOptions options;
  before.adapt(options);
  EXPECT_EQ(options.spread, Spread::kOfEach);
  policy_.adapt(options);
  EXPECT_EQ(options.spread, Spread::kOfSeveral);
}

TEST_F(WeighingDensity, RunsBesideAnotherForWhatWaitsBehind) {
  const SandboxSlot one = warm(1);
  learn(one, warm(2), 1.8);
  submit(2);
  run(1, one);
  EXPECT_EQ(first(), 0u) << "it would lose more than it gains";
  submit(2, 20);
  EXPECT_EQ(first(), 2u) << "the device does more with two at work, which all that wait gain";
}

// The other tenant may run one invocation at once, and does; no device that is done sooner helps
// what waits of it.
TEST_F(WeighingDensity, DoesNotRunBesideAnotherForWhatATenantsQuotaHolds) {
  const SandboxSlot one = warm(1);
  learn(one, warm(2), 1.8);
  tenants_.enter(TenantId{1});
  const uint32_t other = tenants_.enter(TenantId{2});
  tenants_.change(TenantId{2}, 1, {.concurrency = 1}, now_);
  for (const uint32_t function : {1, 5}) {
    flows_[function].tenant = TenantId{2};
    flows_[function].tenant_slot = other;
    policy_.flow_changed(view(), FunctionId{function}, now_);
  }
  submit(2);
  run(1, one);
  tenants_.run_started(other);
  submit(5, 20);
  ASSERT_TRUE(tenants_.hold_all(other));
  EXPECT_EQ(first(), 0u) << "nothing gains by it";

  // As after a restart.
  std::string bytes;
  StateArchive to(&bytes);
  policy_.archive(to);
  policy_.archive_tenants(to);
  DensityPolicy restored({.over_run = seconds(20)}, {.adapts = true, .weighs_queue = true});
  StateArchive from(bytes);
  restored.archive(from);
  restored.archive_tenants(from);
  ASSERT_TRUE(from.complete());
  EXPECT_FALSE(restored.decide(view(), now_).dispatch);

  tenants_.change(TenantId{2}, 1, {.concurrency = 2}, now_);
  EXPECT_EQ(first(), 2u) << "now all that wait gain";
}

// One takes a second and the other four, which has waited for 50 s more: more than 20 s for each
// doubling, less than 40.
TEST_F(WeighingDensity, OrdersByCostForLongerWhereMuchWaits) {
  flows_[2].execution = RunningMean(seconds(4), 1);
  for (const uint32_t function : {1, 2}) warm(function);
  submit(2);
  pass(seconds(50));
  submit(1);
  EXPECT_EQ(first(), 2u);
  // 90 s of work: half of that is two grace periods.
  submit(5, 90);
  EXPECT_EQ(first(), 1u);

  std::string bytes;
  StateArchive to(&bytes);
  policy_.archive(to);
  DensityPolicy restored({.over_run = seconds(20)}, {.adapts = true, .weighs_queue = true});
  StateArchive from(bytes);
  restored.archive(from);
  ASSERT_TRUE(from.complete());
  EXPECT_EQ(restored.decide(view(), now_).function.value, 1u);
  EXPECT_EQ(restored.due_of(view(), FunctionId{1}), policy_.due_of(view(), FunctionId{1}));

  flows_[5].pending = 0;
  policy_.flow_changed(view(), FunctionId{5}, now_);
  EXPECT_EQ(first(), 2u) << "what waited is gone";
}

}  // namespace
}  // namespace lambent::scheduling
