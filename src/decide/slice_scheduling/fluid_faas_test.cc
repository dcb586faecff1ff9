// FluidFaaS as published, in small stories: states, turns, growth, migration.
#include "decide/slice_scheduling/fluid_faas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decide/slice_scheduling/testing/virtual_host.h"

namespace lambent::slice_scheduling::testing {
namespace {

using ::testing::ElementsAre;

constexpr FunctionId kBlur{1};
constexpr FunctionId kSharpen{2};

class FluidFaas : public ::testing::Test {
 protected:
  FluidFaas() : host_(std::make_unique<FluidFaasPolicy>(simple_placer(), FluidFaasOptions{})) {}

  void put(uint32_t id, const std::vector<ComponentOf>& components, Duration slo = seconds(2)) {
    host_.give(FunctionPut{function_of(id, components, slo)});
  }
  // `count` requests, one after each pause.
  void submit_every(FunctionId function, Duration pause, int count) {
    for (int at = 0; at < count; ++at) {
      host_.submit(function);
      host_.run_for(pause);
    }
  }
  const Instance& only(FunctionId function) {
    const auto found = host_.instances_of(function);
    EXPECT_EQ(found.size(), 1U) << describe(host_.world());
    return *found.at(0);
  }
  void expect_all_served() {
    EXPECT_EQ(host_.outcomes().size(), host_.submitted().size());
    for (const auto& [id, outcome] : host_.outcomes()) EXPECT_FALSE(outcome.error);
  }

  VirtualHost host_;
};

TEST_F(FluidFaas, TheFirstRequestMakesATimeSharingInstance) {
  host_.add_slices({1});
  put(1, {{20, 2000}});
  host_.submit(kBlur);
  host_.run_for(seconds(1));
  EXPECT_EQ(only(kBlur).allocation_mode, AllocationMode::kTimeSharing);
  expect_all_served();
}

TEST_F(FluidFaas, MoreThanThirtyPercentMakeItExclusiveAndLessMakeItShareAgain) {
  host_.add_slices({1, 1});
  put(1, {{100, 2000}});
  submit_every(kBlur, milliseconds(200), 20);
  EXPECT_EQ(only(kBlur).allocation_mode, AllocationMode::kExclusive);
  submit_every(kBlur, milliseconds(800), 5);
  EXPECT_EQ(only(kBlur).allocation_mode, AllocationMode::kTimeSharing);
  expect_all_served();
}

TEST_F(FluidFaas, ThoseThatShareASliceEvictEachOtherInTurn) {
  host_.add_slices({1});
  put(1, {{20, 2000}});
  put(2, {{20, 2000}});
  submit_every(kBlur, seconds(3), 1);
  submit_every(kSharpen, seconds(3), 1);
  submit_every(kBlur, seconds(3), 1);
  EXPECT_THAT(host_.story(),
              ElementsAre("start 1 of 1", "unload 1", "start 2 of 2", "unload 2", "load 1"));
  expect_all_served();
}

TEST_F(FluidFaas, WhoseDeadlineLessItsWorkIsFirstComesFirst) {
  host_.add_slices({1});
  put(1, {{50, 2000}}, seconds(30));
  put(2, {{50, 2000}}, seconds(20));
  put(3, {{50, 2000}}, seconds(10));
  submit_every(kBlur, seconds(3), 1);
  submit_every(kSharpen, seconds(3), 1);
  submit_every(FunctionId{3}, seconds(3), 1);
  // While the third is busy, one for each of the others: the second is more urgent.
  host_.submit(FunctionId{3});
  host_.submit(kBlur);
  host_.submit(kSharpen);
  host_.run_for(seconds(5));
  const auto blur = host_.outcomes().at(host_.served(kBlur).back()).when;
  const auto sharpen = host_.outcomes().at(host_.served(kSharpen).back()).when;
  EXPECT_LT(sharpen, blur);
  expect_all_served();
}

TEST_F(FluidFaas, WhatIsLoadedServesWhatItCameForBeforeItLeaves) {
  // Either's load time makes it the more urgent one whenever it is the one that is out.
  host_.add_slices({1});
  put(1, {{20, 8000}}, milliseconds(500));
  put(2, {{20, 8000}}, milliseconds(500));
  for (int at = 0; at < 50; ++at) {
    host_.submit(kBlur);
    host_.submit(kSharpen);
  }
  host_.run_for(seconds(120));
  expect_all_served();
}

TEST_F(FluidFaas, WhatCameForARequestThatWasCancelledGivesItsSliceUp) {
  host_.add_slices({1});
  put(1, {{20, 8000}});
  put(2, {{20, 8000}});
  submit_every(kBlur, seconds(3), 1);
  submit_every(kSharpen, seconds(3), 1);
  submit_every(kBlur, seconds(3), 1);
  const InvocationId cancelled = host_.submit(kSharpen);
  host_.run_for(milliseconds(400));
  EXPECT_EQ(host_.story().back(), "load 2");
  host_.give(RequestCancelled{cancelled});
  host_.submit(kBlur);
  host_.run_for(seconds(5));
  EXPECT_EQ(host_.served(kBlur).size(), 3U) << describe(host_.world());
}

TEST_F(FluidFaas, TenMinutesWithoutARequestMakeItCold) {
  host_.add_slices({1});
  put(1, {{20, 2000}});
  submit_every(kBlur, seconds(590), 1);
  EXPECT_EQ(host_.instances_of(kBlur).size(), 1U);
  host_.run_for(seconds(20));
  EXPECT_TRUE(host_.world().instances.empty());
}

TEST_F(FluidFaas, WhatFitsNoSliceAloneBecomesAnExclusivePipeline) {
  host_.add_slices({1, 1, 1});
  put(1, {{20, 6000}, {20, 6000}});
  submit_every(kBlur, seconds(1), 3);
  EXPECT_TRUE(only(kBlur).is_pipeline());
  EXPECT_EQ(only(kBlur).allocation_mode, AllocationMode::kExclusive);
  host_.run_for(seconds(60));
  EXPECT_EQ(only(kBlur).allocation_mode, AllocationMode::kExclusive);
  expect_all_served();
}

TEST_F(FluidFaas, APipelineMigratesToASliceThatHoldsItAllAndLosesAndReordersNothing) {
  host_.add_slices({1, 1});
  put(1, {{40, 6000}, {40, 6000}});
  submit_every(kBlur, milliseconds(45), 80);
  EXPECT_TRUE(only(kBlur).is_pipeline());
  host_.give(SliceAdded{slice_of(9, 2)});
  submit_every(kBlur, milliseconds(60), 60);
  EXPECT_FALSE(only(kBlur).is_pipeline());
  EXPECT_EQ(only(kBlur).placement.slices.front(), DeviceId{9});
  host_.run_for(seconds(5));
  expect_all_served();
  const auto& served = host_.served(kBlur);
  EXPECT_EQ(served.size(), 140U);
  EXPECT_TRUE(std::is_sorted(served.begin(), served.end()));
}

TEST_F(FluidFaas, MissedSlosMakeMoreInstancesUntilTheyAreKept) {
  host_.add_slices({1, 1, 1, 1});
  put(1, {{100, 2000}}, milliseconds(400));
  submit_every(kBlur, milliseconds(40), 400);
  EXPECT_GE(host_.instances_of(kBlur).size(), 3U);
  host_.run_for(seconds(1));
  size_t late = 0;
  for (size_t at = 300; at < 400; ++at) {
    const InvocationId request{1, at + 1};
    const Instant submitted = Instant{} + milliseconds(40) * static_cast<int64_t>(at);
    if (host_.outcomes().at(request).when > submitted + milliseconds(400)) ++late;
  }
  EXPECT_EQ(late, 0U);
  // And when there is little to do, there are fewer.
  submit_every(kBlur, seconds(1), 20);
  EXPECT_EQ(host_.instances_of(kBlur).size(), 1U);
}

TEST_F(FluidFaas, TimeSharedSlicesThatAreHardlyUsedBecomeFewer) {
  host_.add_slices({1, 1, 1});
  put(1, {{20, 2000}});
  put(2, {{20, 2000}});
  // At once, so that each needs a slice of its own.
  for (int at = 0; at < 30; ++at) {
    host_.submit(kBlur);
    host_.submit(kSharpen);
    host_.run_for(milliseconds(30));
  }
  host_.run_for(seconds(30));
  submit_every(kBlur, seconds(5), 4);
  submit_every(kSharpen, seconds(5), 4);
  size_t used = 0;
  for (const auto& [id, slice] : host_.world().slices) used += slice.is_free() ? 0 : 1;
  EXPECT_EQ(used, 1U) << describe(host_.world());
  expect_all_served();
}

TEST_F(FluidFaas, AnIdlePipelineMakesRoomForWhoWaits) {
  host_.add_slices({1, 1});
  put(1, {{20, 6000}, {20, 6000}});
  put(2, {{20, 6000}, {20, 6000}});
  submit_every(kBlur, seconds(3), 1);
  submit_every(kSharpen, seconds(5), 1);
  expect_all_served();
}

TEST_F(FluidFaas, APipelineThatIsColdAndInTheWayIsRetiredOnce) {
  host_.add_slices({1, 1});
  for (uint32_t id : {1U, 2U}) {
    host_.give(FunctionPut{function_of(id, {{40, 6000}, {40, 6000}})});
  }
  host_.submit(FunctionId{1});
  host_.run_for(seconds(1));
  ASSERT_EQ(host_.served(FunctionId{1}).size(), 1U);
  host_.submit(FunctionId{2});
  // Timers can be late: both reasons hold at once.
  FluidFaasPolicy policy(simple_placer(), FluidFaasOptions{});
  std::vector<Decision> decisions;
  policy.decide(host_.world(), host_.now() + std::chrono::minutes(11), decisions);
  EXPECT_EQ(
      std::count_if(decisions.begin(), decisions.end(),
                    [](const Decision& each) { return std::holds_alternative<Retire>(each); }),
      1);
}

TEST_F(FluidFaas, TheOldestGoToTheQuickestInstanceThenToTheNextAndTheRestShares) {
  SliceWorld world;
  FunctionState& function = world.functions[kBlur];
  function.function = function_of(1, {{100, 2000}});
  const auto stands = [&](uint64_t id, AllocationMode allocation_mode, Duration bottleneck,
                          std::vector<DeviceId> slices) {
    Instance& instance = world.instances[InstanceId{id}];
    instance.id = InstanceId{id};
    instance.function = kBlur;
    instance.allocation_mode = allocation_mode;
    instance.load_state = LoadState::kLoaded;
    instance.placement.slices = slices;
    instance.placement.bottleneck = bottleneck;
    instance.placement.latency = bottleneck * slices.size();
    function.instances.push_back(instance.id);
    for (const DeviceId slice : slices) {
      SliceState& state = world.slices[slice];
      state.slice = slice_of(slice.value, 1);
      if (allocation_mode == AllocationMode::kExclusive) {
        state.exclusive = instance.id;
      } else {
        state.sharing.push_back(instance.id);
      }
    }
  };
  // The quick one is a pipeline of two slices: three jobs keep it busy.
  stands(1, AllocationMode::kExclusive, milliseconds(100), {DeviceId{1}});
  stands(2, AllocationMode::kExclusive, milliseconds(25), {DeviceId{2}, DeviceId{3}});
  stands(3, AllocationMode::kTimeSharing, milliseconds(10), {DeviceId{4}});
  for (uint64_t at = 1; at <= 6; ++at) {
    const InvocationId id{0, at};
    function.queue.push_back({.id = id, .sequence = at, .deadline = Instant(seconds(2))});
    world.queued[id] = {kBlur, at};
  }
  FluidFaasPolicy policy(simple_placer(), FluidFaasOptions{});
  // What is decided, carried out until nothing more is assigned: request and instance.
  std::vector<std::pair<uint64_t, uint64_t>> assigned;
  for (bool more = true; more;) {
    std::vector<Decision> decisions;
    policy.decide(world, world.now, decisions);
    more = false;
    for (const Decision& decision : decisions) {
      const auto* assign = std::get_if<Assign>(&decision);
      if (assign == nullptr) continue;
      more = true;
      ASSERT_EQ(assign->requests.size(), 1U);
      ASSERT_EQ(assign->requests[0], function.queue.front().id);
      assigned.emplace_back(assign->requests[0].low, assign->instance.value);
      ++world.instances.at(assign->instance).jobs;
      world.instances.at(assign->instance).busy_until = world.now + seconds(1);
      world.queued.erase(assign->requests[0]);
      function.queue.pop_front();
    }
  }
  EXPECT_THAT(assigned, ElementsAre(std::pair(1, 2), std::pair(2, 2), std::pair(3, 2),
                                    std::pair(4, 1), std::pair(5, 3)));
}

}  // namespace
}  // namespace lambent::slice_scheduling::testing
