// Why requests of pipelines wait: a story for each word.
#include "decide/slice_scheduling/slice_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decide/slice_scheduling/slo_policy.h"
#include "decide/slice_scheduling/testing/virtual_host.h"

namespace lambent::slice_scheduling::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr FunctionId kBlur{1};
constexpr FunctionId kSharpen{2};

class SliceWaits : public ::testing::Test {
 protected:
  SliceWaits() : host_(std::make_unique<SloPolicy>(place_simply, SloPolicyOptions{})) {}

  void put(FunctionId function) {
    host_.give(FunctionPut{function_of(function.value, {{100, 2000}}, seconds(2))});
  }
  WaitCause cause(FunctionId function) const {
    return wait_of(host_.world(), host_.world().functions.at(function));
  }
  // Until it waits for that, or ten seconds are over.
  bool comes_to_wait_for(FunctionId function, WaitCause wanted) {
    for (int at = 0; at < 10'000; ++at) {
      if (cause(function) == wanted) return true;
      host_.run_for(milliseconds(1));
    }
    return false;
  }

  VirtualHost host_;
};

TEST_F(SliceWaits, AnEmptyQueueWaitsForNothing) {
  put(kBlur);
  EXPECT_EQ(cause(kBlur), WaitCause{});
}

TEST_F(SliceWaits, TheFirstRequestWaitsForAStartAndTheOthersForIt) {
  host_.add_slices({1});
  put(kBlur);
  host_.submit(kBlur);
  EXPECT_EQ(cause(kBlur), (WaitCause{SliceWait::kStarting, {}}));
  host_.submit(kBlur);
  EXPECT_TRUE(comes_to_wait_for(kBlur, {SliceWait::kOwnQueue, {}}));
}

TEST_F(SliceWaits, WithoutSlicesItIsTheDeviceThatIsMissing) {
  host_.add_slices({1});
  put(kBlur);
  host_.give(SliceLost{.slice = DeviceId{1}, .returns = true});
  host_.submit(kBlur);
  EXPECT_EQ(cause(kBlur), (WaitCause{SliceWait::kNoDevice, {}}));
}

TEST_F(SliceWaits, AFunctionThatCannotStartPausesBeforeItTriesAgain) {
  host_.add_slices({1});
  put(kBlur);
  host_.bad = DeviceId{1};
  host_.submit(kBlur);
  EXPECT_TRUE(comes_to_wait_for(kBlur, {SliceWait::kStartPaused, {}}));
}

TEST_F(SliceWaits, WhoHasTheSliceIsTold) {
  host_.add_slices({1});
  put(kBlur);
  put(kSharpen);
  for (int at = 0; at < 60; ++at) host_.submit(kBlur);
  host_.run_for(seconds(2));
  host_.submit(kSharpen);
  EXPECT_EQ(cause(kSharpen), (WaitCause{SliceWait::kNoSlice, kBlur}));
  EXPECT_TRUE(comes_to_wait_for(kSharpen, {SliceWait::kStarting, {}}));
  for (int at = 0; at < 60; ++at) host_.submit(kSharpen);
  EXPECT_TRUE(comes_to_wait_for(kBlur, {SliceWait::kSliceShared, kSharpen}));
  EXPECT_TRUE(comes_to_wait_for(kBlur, {SliceWait::kMemoryMoving, {}}));
}

TEST(WaitAccounting, WhatOneWaitedForIsTheDifferenceBetweenTwoMoments) {
  SliceWorld world;
  FunctionState state;
  state.function = function_of(1, {{100, 2000}});
  const auto queue = [&](bool waits) {
    if (waits) state.queue = {{.id = {1, 1}}};
    if (!waits) state.queue.clear();
    world.functions[kBlur] = state;
    world.queued.clear();
    if (waits) world.queued[{1, 1}] = {};
  };
  const auto at = [](int s) { return Instant(seconds(s)); };
  WaitAccounting accounting;
  queue(true);
  accounting.look(world, at(1));
  const WaitAccounting::Totals before = accounting.totals(kBlur, at(3));
  EXPECT_THAT(before, ElementsAre(Pair(WaitCause{SliceWait::kNoDevice, {}}, seconds(2))));
  // A slice comes, which another function has.
  world.slices[DeviceId{1}].slice = slice_of(1, 1);
  world.slices[DeviceId{1}].exclusive = InstanceId{1};
  world.instances[InstanceId{1}] = {.id = InstanceId{1}, .function = kSharpen};
  world.instances[InstanceId{1}].placement.slices = {DeviceId{1}};
  accounting.look(world, at(4));
  queue(false);
  accounting.look(world, at(9));
  Waits waits;
  add_difference(before, accounting.totals(kBlur, at(20)), waits);
  EXPECT_THAT(waits, ElementsAre(Pair(WaitCause{SliceWait::kNoSlice, kSharpen}, seconds(5)),
                                 Pair(WaitCause{SliceWait::kNoDevice, {}}, seconds(1))));
  EXPECT_EQ(longest_queueing(waits).reason, SliceWait::kNoSlice);
  world.functions.clear();
  accounting.look(world, at(21));
  EXPECT_THAT(accounting.totals(kBlur, at(22)), ElementsAre())
      << "a function that is gone is forgotten";
}

TEST(WaitAccounting, AStartIsNoWaitInTheQueue) {
  const Waits waits = {{{SliceWait::kStarting, {}}, seconds(5)},
                       {{SliceWait::kOwnQueue, {}}, seconds(1)}};
  EXPECT_EQ(longest_queueing(waits).reason, SliceWait::kOwnQueue);
  EXPECT_EQ(longest_queueing({waits.front()}).reason, SliceWait::kNone);
}

TEST(WaitAccounting, ManyNeighboursAreNotAllRemembered) {
  SliceWorld world;
  FunctionState state;
  state.function = function_of(1, {{100, 2000}});
  state.queue = {{.id = {1, 1}}};
  world.functions[kBlur] = state;
  world.queued[{1, 1}] = {};
  world.slices[DeviceId{1}].slice = slice_of(1, 1);
  WaitAccounting accounting;
  for (uint32_t other = 2; other < 500; ++other) {
    world.instances[InstanceId{1}] = {.id = InstanceId{1}, .function = FunctionId{other}};
    world.instances[InstanceId{1}].placement.slices = {DeviceId{1}};
    accounting.look(world, Instant(seconds(other)));
  }
  const auto totals = accounting.totals(kBlur, Instant(seconds(500)));
  EXPECT_LT(totals.size(), 70U);
  Duration all{};
  for (const auto& [cause, waited] : totals) all += waited;
  EXPECT_EQ(all, seconds(498)) << "no time is lost for that";
}

}  // namespace
}  // namespace lambent::slice_scheduling::testing
