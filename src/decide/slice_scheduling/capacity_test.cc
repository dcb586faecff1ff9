// SloPolicy counts what instances can do by the batches that were measured, wherever it counts: who
// serves what, on which slices an instance starts, and whether it moves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decide/slice_scheduling/slo_policy.h"
#include "decide/slice_scheduling/testing/virtual_host.h"

namespace lambent::slice_scheduling::testing {
namespace {

constexpr FunctionId kNetwork{1};

// One component, of which eight together take hardly more than one; 100 ms on a 1g.
std::shared_ptr<pipeline::PipelineFunction> network(Duration slo) {
  auto function = function_of(1, {{100, 2000}}, slo);
  function->most_batch = 8;
  return function;
}

// A world by hand, for one decision.
class Capacity : public ::testing::Test {
 protected:
  Capacity() {
    for (const unsigned compute : {1U, 2U}) {
      const Slice slice = slice_of(compute, compute);
      world_.slices[slice.id] = {.slice = slice};
    }
    world_.slices_version = 1;
    world_.window = seconds(1);
  }

  FunctionState& put(std::shared_ptr<const pipeline::PipelineFunction> function) {
    FunctionState& state = world_.functions[kNetwork];
    state.function = std::move(function);
    state.version = 1;
    return state;
  }
  Instance& add(uint64_t id, std::vector<DeviceId> slices, Duration latency) {
    Instance& instance = world_.instances[InstanceId(id)];
    instance.id = InstanceId(id);
    instance.function = kNetwork;
    instance.load_state = LoadState::kLoaded;
    instance.placement.slices = std::move(slices);
    instance.placement.latency = instance.placement.bottleneck = latency;
    for (const DeviceId slice : instance.placement.slices) {
      world_.slices[slice].exclusive = instance.id;
    }
    world_.functions[kNetwork].instances.push_back(instance.id);
    return instance;
  }
  template <typename Kind>
  const Kind* decided() {
    decisions_.clear();
    policy_.decide(world_, now_, decisions_);
    for (const Decision& each : decisions_) {
      if (const auto* found = std::get_if<Kind>(&each)) return found;
    }
    return nullptr;
  }

  const Instant now_{seconds(100)};
  SliceWorld world_;
  std::vector<Decision> decisions_;
  SloPolicy policy_{planner_partition_placer({}), SloPolicyOptions{}};
};

TEST_F(Capacity, WhatAQuickInstanceServesInBatchesInTimeIsLeftToIt) {
  FunctionState& state = put(network(milliseconds(500)));
  Instance& quick = add(1, {DeviceId{2}}, milliseconds(100));
  quick.jobs = 1;
  quick.busy_until = now_ + milliseconds(100);
  add(2, {DeviceId{1}}, milliseconds(600));  // in time with nothing
  for (uint64_t i = 1; i <= 6; ++i) {
    state.queue.push_back({.id = InvocationId{1, i},
                           .sequence = i,
                           .submitted = now_,
                           .deadline = now_ + milliseconds(500)});
  }
  const Assign* by_single_requests = decided<Assign>();
  ASSERT_NE(by_single_requests, nullptr) << "ten a second are too few for six: one is late";
  EXPECT_EQ(by_single_requests->instance, InstanceId(2));
  quick.placement.batches = {{8, milliseconds(160), milliseconds(160)}};
  EXPECT_EQ(decided<Assign>(), nullptr) << "six together are in time";
}

TEST_F(Capacity, APipelineWithReplicasMovesToASliceThatGivesAsMuchInBatches) {
  auto measured = network(milliseconds(500));
  measured->profile.components[0].batch_times_by_shape[shape_of(2).name] = {{8, milliseconds(80)}};
  FunctionState& state = put(network(milliseconds(500)));
  world_.slices[DeviceId{3}] = {.slice = slice_of(3, 1)};
  world_.slices[DeviceId{4}] = {.slice = slice_of(4, 1)};
  Instance& cut = add(1, {DeviceId{1}, DeviceId{3}, DeviceId{4}}, milliseconds(200));
  for (int stage = 0; stage < 2; ++stage) {
    cut.placement.partition.stages.push_back({{pipeline::StageProcess{{0}}}});
  }
  cut.placement.replicas = {1, 2};
  // 25 a second; the 2g.20gb does 20 a second one by one, and 100 in batches.
  for (int i = 0; i < 500; ++i) policy_.arrived(state, now_ - milliseconds(40) * (500 - i));
  EXPECT_EQ(decided<Start>(), nullptr);
  put(measured).version = 2;
  const Start* start = decided<Start>();
  ASSERT_NE(start, nullptr);
  EXPECT_EQ(start->placement.slices, std::vector{DeviceId{2}});
}

TEST(Capacities, AnInstanceStartsWhereBatchesGiveMostForTheSlice) {
  for (const bool measured : {false, true}) {
    VirtualHost host(std::make_unique<SloPolicy>(planner_partition_placer({}), SloPolicyOptions{}));
    host.add_slices({1, 2});
    auto function = network(milliseconds(250));
    auto& profile = function->profile.components[0];
    profile.time_by_shape[shape_of(2).name] = milliseconds(60);  // gains little from its size
    if (measured) {
      profile.batch_times_by_shape[shape_of(1).name] = {{2, milliseconds(190)}};  // too long
      profile.batch_times_by_shape[shape_of(2).name] = {
          {2, milliseconds(65)}, {4, milliseconds(80)}, {8, milliseconds(110)}};
    }
    host.give(FunctionPut{function});
    host.submit(kNetwork);
    ASSERT_EQ(host.instances_of(kNetwork).size(), 1u);
    EXPECT_EQ(host.instances_of(kNetwork)[0]->placement.slices,
              std::vector{DeviceId{measured ? 2U : 1U}});
  }
}

}  // namespace
}  // namespace lambent::slice_scheduling::testing
