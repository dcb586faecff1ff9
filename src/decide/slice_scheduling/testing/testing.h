// For tests of slice policies, and for those of other modules: slices and functions to be had with
// few words, and what holds of the dispatcher's accounting at any time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decide/slice_scheduling/placer.h"
#include "decide/slice_scheduling/world.h"

namespace lambent::slice_scheduling::testing {

// 1, 2, 3, 4 and 7: the profiles of an 80 GB device.
inline SliceShape shape_of(unsigned compute) {
  const unsigned memory_gb = compute == 7 ? 80 : compute >= 3 ? 40 : compute * 10;
  return {std::to_string(compute) + "g." + std::to_string(memory_gb) + "gb", compute * 14,
          Bytes::mib(memory_gb * 972)};
}

inline Slice slice_of(uint32_t id, unsigned compute, uint32_t gpu = 0, uint32_t node = 0) {
  return {.id = DeviceId{id},
          .gpu = gpu,
          .node = node,
          .uuid = "MIG-" + std::to_string(id),
          .shape = shape_of(compute)};
}

// A component that takes so long on a 1g slice, and in inverse proportion on larger ones.
struct ComponentOf {
  int64_t ms = 20;
  uint64_t memory_mb = 2000;
};

// A chain, with all its partitions into at most `most_stages` consecutive stages; fewest first.
inline std::shared_ptr<pipeline::PipelineFunction> function_of(
    uint32_t id, const std::vector<ComponentOf>& components, Duration slo = seconds(1),
    size_t most_stages = 4) {
  auto function = std::make_shared<pipeline::PipelineFunction>();
  function->id = FunctionId{id};
  function->slo = slo;
  function->dag.inputs = {"input"};
  for (const unsigned compute : {1U, 2U, 3U, 4U, 7U}) function->shapes.push_back(shape_of(compute));
  function->profile.context = Bytes::mib(400);
  function->profile.start = milliseconds(300);
  for (size_t at = 0; at < components.size(); ++at) {
    pipeline::Component component{.name = "c" + std::to_string(at), .inputs = {}};
    const auto kind = at == 0 ? pipeline::Source::Kind::kInput : pipeline::Source::Kind::kComponent;
    component.inputs.push_back({kind, at == 0 ? 0 : at - 1});
    function->dag.components.push_back(component);
    pipeline::ComponentProfile profile{.weights = Bytes::mib(components[at].memory_mb / 2),
                                       .memory = Bytes::mib(components[at].memory_mb),
                                       .output = Bytes::mib(1)};
    for (const unsigned compute : {1U, 2U, 3U, 4U, 7U}) {
      profile.time_by_shape[shape_of(compute).name] =
          Duration(milliseconds(components[at].ms)) / compute;
    }
    function->profile.components.push_back(profile);
  }
  function->dag.outputs = {components.size() - 1};
  for (uint32_t cuts = 0; cuts < (1U << (components.size() - 1)); ++cuts) {
    pipeline::Partition partition{{{{{{0}}}}}};
    for (size_t at = 1; at < components.size(); ++at) {
      if ((cuts & (1U << (at - 1))) != 0) partition.stages.push_back({{{}}});
      partition.stages.back().stage_processes.back().components.push_back(at);
    }
    if (partition.stages.size() <= most_stages) function->ranked.push_back(partition);
  }
  std::stable_sort(
      function->ranked.begin(), function->ranked.end(),
      [](const auto& a, const auto& b) { return a.stage_processes() < b.stage_processes(); });
  return function;
}

// Each stage process of a partition, largest first, on the smallest slice that holds it.
inline std::optional<pipeline::Placement> place_simply(const pipeline::PipelineFunction& function,
                                                       const pipeline::Partition& partition,
                                                       std::span<const Slice> slices) {
  constexpr Duration kHandover = milliseconds(1);
  pipeline::Placement placement{.partition = partition};
  std::set<DeviceId> used;
  std::optional<uint32_t> node;
  for (const pipeline::Stage& stage : partition.stages) {
    Duration slowest{};
    for (const pipeline::StageProcess& stage_process : stage.stage_processes) {
      Bytes memory = function.profile.context;
      for (const size_t at : stage_process.components)
        memory += function.profile.components[at].memory;
      const Slice* best = nullptr;
      for (const Slice& slice : slices) {
        if (slice.shape.memory < memory || used.contains(slice.id)) continue;
        if (node && slice.node != *node) continue;
        if (best == nullptr || slice.shape.multiprocessors < best->shape.multiprocessors) {
          best = &slice;
        }
      }
      if (best == nullptr) return std::nullopt;
      used.insert(best->id);
      node = best->node;
      placement.slices.push_back(best->id);
      Duration time{};
      for (const size_t at : stage_process.components) {
        time += function.profile.components[at].time_by_shape.at(best->shape.name);
        placement.load += milliseconds(function.profile.components[at].weights.count >> 24);
      }
      slowest = std::max(slowest, time);
    }
    placement.latency += slowest + (placement.latency > Duration::zero() ? kHandover : Duration{});
    placement.bottleneck = std::max(placement.bottleneck, slowest);
  }
  return placement;
}

inline Placer simple_placer() {
  return [](const pipeline::PipelineFunction& function, std::span<const Slice> slices) {
    std::optional<pipeline::Placement> placement;
    for (const pipeline::Partition& partition : function.ranked) {
      placement = place_simply(function, partition, slices);
      if (placement) break;
    }
    return placement;
  };
}

// For who looks for the reason of a failure.
inline std::string describe(const SliceWorld& world) {
  constexpr const char* kLoadStates[] = {"starting", "loaded",  "unloading",
                                         "unloaded", "loading", "stopping"};
  std::string text;
  for (const auto& [id, slice] : world.slices) {
    text += "slice " + std::to_string(id.value) + " " + slice.slice.shape.name + " of node " +
            std::to_string(slice.slice.node) +
            (slice.returns ? " out\n"
             : slice.lost  ? " lost\n"
                           : "\n");
  }
  for (const auto& [id, function] : world.functions) {
    text += "function " + std::to_string(id.value) + ": " + std::to_string(function.queue.size()) +
            " queued, " + std::to_string(function.failed_starts) + " failed starts\n";
  }
  for (const auto& [id, instance] : world.instances) {
    text += "instance " + std::to_string(id.value) + " of function " +
            std::to_string(instance.function.value) + " on";
    for (const DeviceId slice : instance.placement.slices)
      text += " " + std::to_string(slice.value);
    text += std::string(instance.allocation_mode == AllocationMode::kExclusive ? ", exclusive, "
                                                                               : ", sharing, ") +
            kLoadStates[static_cast<int>(instance.load_state)] +
            (instance.retiring ? ", retiring, " : ", ") + std::to_string(instance.jobs) + " jobs\n";
  }
  return text;
}

// What holds of the dispatcher's accounting after every event.
inline void expect_sound(const SliceWorld& world, size_t most_queued) {
  for (const auto& [id, slice] : world.slices) {
    EXPECT_FALSE(slice.exclusive && !slice.sharing.empty()) << "slice " << id.value;
    size_t here = 0;
    for (const InstanceId each : slice.sharing) {
      ASSERT_TRUE(world.instances.contains(each));
      if (world.instances.at(each).on_slices) ++here;
    }
    EXPECT_LE(here, 1U) << "share slice " << id.value << " at once";
  }
  std::map<FunctionId, size_t> sharing;
  for (const auto& [id, instance] : world.instances) {
    for (const DeviceId slice : instance.placement.slices) {
      ASSERT_TRUE(world.slices.contains(slice));
      const SliceState& state = world.slices.at(slice);
      if (instance.allocation_mode == AllocationMode::kExclusive) {
        EXPECT_EQ(state.exclusive, id);
      } else {
        EXPECT_EQ(std::count(state.sharing.begin(), state.sharing.end(), id), 1);
      }
    }
    EXPECT_TRUE(instance.jobs == 0 || instance.load_state == LoadState::kLoaded);
    EXPECT_FALSE(instance.is_pipeline() &&
                 instance.allocation_mode == AllocationMode::kTimeSharing);
    EXPECT_GE(instance.requests, instance.jobs);
    EXPECT_GE(instance.utilisation, 0);
    EXPECT_LE(instance.utilisation, 1);
    if (!instance.retiring) {
      ASSERT_TRUE(world.functions.contains(instance.function));
      if (instance.allocation_mode == AllocationMode::kTimeSharing) ++sharing[instance.function];
    }
  }
  for (const auto& [id, count] : sharing) EXPECT_LE(count, 1U) << "function " << id.value;
  size_t queued = 0;
  for (const auto& [id, function] : world.functions) {
    queued += function.queue.size();
    EXPECT_LE(function.queue.size(), most_queued);
    uint64_t last = 0;
    for (const QueuedRequest& request : function.queue) {
      EXPECT_GT(request.sequence, last);
      last = request.sequence;
      ASSERT_TRUE(world.queued.contains(request.id));
      EXPECT_EQ(world.queued.at(request.id).function, id);
    }
    for (const InstanceId instance : function.instances) {
      ASSERT_TRUE(world.instances.contains(instance));
      EXPECT_EQ(world.instances.at(instance).function, id);
    }
  }
  EXPECT_EQ(queued, world.queued.size());
}

}  // namespace lambent::slice_scheduling::testing
