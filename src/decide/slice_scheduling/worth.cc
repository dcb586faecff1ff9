#include "decide/slice_scheduling/worth.h"

#include <algorithm>
#include <tuple>

#include "decide/pipeline/placing.h"
#include "decide/pipeline/replication.h"

namespace lambent::slice_scheduling {
namespace {

constexpr size_t kPartitions = 64;  // of each function are looked at
constexpr size_t kAlike = 6;        // slices of one shape and node
constexpr size_t kShapes = 6;       // of a node: all their subsets are tried
constexpr double kLeastWorth = 0.1;
// With replicas results must be cheaper by so much: more slices are lost where one is.
constexpr double kReplicasGain = 0.05;
// They are for what is wanted now and so many times what the best instance without them gives: an
// instance gets no more of them later.
constexpr double kRoomToGrow = 2;

struct Group {
  const SliceShape* shape;
  std::vector<const Slice*> slices;
};

std::vector<uint32_t> nodes_of(std::span<const Slice> slices) {
  std::vector<uint32_t> nodes;
  for (const Slice& slice : slices) {
    if (std::find(nodes.begin(), nodes.end(), slice.node) == nodes.end()) {
      nodes.push_back(slice.node);
    }
  }
  return nodes;
}

// By shape, largest first, a few of each.
std::vector<Group> groups_of(std::span<const Slice> slices, uint32_t node, size_t most) {
  std::vector<Group> groups;
  for (const Slice& slice : slices) {
    if (slice.node != node) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& each) {
      return each.shape->name == slice.shape.name;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), {&slice.shape, {}});
    if (group->slices.size() < most) group->slices.push_back(&slice);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.shape->multiprocessors > b.shape->multiprocessors;
  });
  if (groups.size() > kShapes) groups.resize(kShapes);
  return groups;
}

std::vector<std::pair<std::string, size_t>> signature(const std::vector<Group>& groups) {
  std::vector<std::pair<std::string, size_t>> all;
  for (const Group& group : groups) all.emplace_back(group.shape->name, group.slices.size());
  return all;
}

const Slice& slice_with(std::span<const Slice> slices, DeviceId id) {
  return *std::find_if(slices.begin(), slices.end(),
                       [&](const Slice& each) { return each.id == id; });
}

}  // namespace

PartitionPlacer planner_partition_placer(const pipeline::TransferCosts& costs) {
  return [costs](const pipeline::PipelineFunction& function, const pipeline::Partition& partition,
                 std::span<const Slice> slices) {
    return pipeline::place(function, partition, slices, costs);
  };
}

Placer first_fit(PartitionPlacer placer) {
  return [placer = std::move(placer)](const pipeline::PipelineFunction& function,
                                      std::span<const Slice> slices) {
    std::optional<pipeline::Placement> placement;
    for (const pipeline::Partition& partition : function.ranked) {
      placement = placer(function, partition, slices);
      if (placement) break;
    }
    return placement;
  };
}

void Worth::learn(const SliceWorld& world, std::span<const Slice> slices) {
  uint64_t functions = 0;
  for (const auto& [id, function] : world.functions) functions = functions * 31 + function.version;
  const bool all_known = std::all_of(slices.begin(), slices.end(), [&](const Slice& slice) {
    return by_shape_.contains(slice.shape.name);
  });
  if (functions == functions_seen_ && all_known) return;
  functions_seen_ = functions;
  by_shape_.clear();
  for (const auto& [id, state] : world.slices) {
    const SliceShape& shape = state.slice.shape;
    const auto [worth, fresh] = by_shape_.try_emplace(shape.name, kLeastWorth);
    if (!fresh) continue;
    std::vector<Slice> alike(kAlike, state.slice);
    for (size_t at = 0; at < kAlike; ++at) alike[at].id = DeviceId{static_cast<uint32_t>(at + 1)};
    for (const auto& [function_id, function] : world.functions) {
      const auto& ranked = function.function->ranked;
      for (size_t at = 0; at < std::min(ranked.size(), kPartitions); ++at) {
        const auto placement = placer_(*function.function, ranked[at], alike);
        if (!placement) continue;
        const std::vector<const SliceShape*> shapes(placement->slices.size(), &shape);
        worth->second = std::max(worth->second,
                                 pipeline::efficiency_of(*function.function, *placement, shapes));
      }
    }
    worth->second = std::min(worth->second, 1.0) * shape.multiprocessors;
  }
}

std::optional<pipeline::Placement> Worth::choose(const SliceWorld& world,
                                                 const FunctionState& function,
                                                 std::span<const Slice> slices,
                                                 double wanted_per_s) {
  const Placer any = first_fit(placer_);
  const std::vector<Slice> rested = world.rested(slices);
  for (const std::span<const Slice> some : {std::span<const Slice>(rested), slices}) {
    std::optional<pipeline::Placement> placement;
    if (auto found = best_of(world, function, some)) {
      placement = replicated(function, some, wanted_per_s, *found);
      if (!placement) placement = std::move(found->placement);
    } else {
      // What is left out for the sake of time: long pipelines, cuts that are ranked low.
      placement = any(*function.function, some);
    }
    if (placement || rested.size() == slices.size()) return placement;
  }
  return std::nullopt;
}

std::optional<pipeline::Placement> Worth::replicated(const FunctionState& function,
                                                     std::span<const Slice> slices,
                                                     double wanted_per_s,
                                                     const Found& alone) const {
  if (most_slices_ < 2) return std::nullopt;
  const double alone_per_s = pipeline::capacity_of(alone.placement, function.function->slo).per_s();
  const pipeline::ReplicationLimits limits{
      .most_slices = most_slices_, .wanted_per_s = wanted_per_s + kRoomToGrow * alone_per_s};
  std::optional<pipeline::Replicated> best;
  std::vector<std::vector<std::pair<std::string, size_t>>> seen;  // as good as each other
  const auto& ranked = function.function->ranked;
  for (const uint32_t node : nodes_of(slices)) {
    const std::vector<Group> on_node = groups_of(slices, node, most_slices_);
    if (std::find(seen.begin(), seen.end(), signature(on_node)) != seen.end()) continue;
    seen.push_back(signature(on_node));
    std::vector<pipeline::SliceGroup> groups;
    for (const Group& group : on_node) {
      groups.push_back({*group.shape, group.slices, by_shape_.at(group.shape->name)});
    }
    for (size_t at = 0; at < std::min(ranked.size(), kPartitions); ++at) {
      auto found =
          pipeline::place_replicated(*function.function, ranked[at], groups, costs_, limits);
      if (!found) continue;
      if (best && std::tuple(found->late, found->cost) >= std::tuple(best->late, best->cost)) {
        continue;
      }
      best = std::move(found);
    }
  }
  const auto cost = [](bool late, double cost) { return std::tuple(late, cost); };
  if (!best || cost(best->late, best->cost * (1 + kReplicasGain)) >= cost(alone.late, alone.cost)) {
    return std::nullopt;
  }
  return std::move(best->placement);
}

std::optional<Worth::Found> Worth::best_of(const SliceWorld& world, const FunctionState& function,
                                           std::span<const Slice> slices) {
  learn(world, slices);
  std::optional<pipeline::Placement> best;
  std::tuple<bool, double, Duration> best_cost;
  std::vector<std::vector<std::pair<std::string, size_t>>> seen;
  const auto& ranked = function.function->ranked;
  for (const uint32_t node : nodes_of(slices)) {
    const std::vector<Group> groups = groups_of(slices, node, kAlike);
    // Nodes that have the same are as good as each other.
    if (std::find(seen.begin(), seen.end(), signature(groups)) != seen.end()) continue;
    seen.push_back(signature(groups));
    for (unsigned subset = 1; subset < (1U << groups.size()); ++subset) {
      std::vector<Slice> some;
      for (size_t at = 0; at < groups.size(); ++at) {
        if ((subset & (1U << at)) == 0) continue;
        for (const Slice* slice : groups[at].slices) some.push_back(*slice);
      }
      for (size_t at = 0; at < std::min(ranked.size(), kPartitions); ++at) {
        if (ranked[at].stage_processes() > some.size()) continue;
        auto placement = placer_(*function.function, ranked[at], some);
        if (!placement) continue;
        double worth = 0;
        for (const DeviceId id : placement->slices) {
          worth += by_shape_.at(slice_with(some, id).shape.name);
        }
        const Duration slo = function.function->slo;
        const bool late = slo > Duration{} && placement->latency > slo;
        const double cost =
            worth * std::max(1e-6, pipeline::capacity_of(*placement, slo).seconds_a_result);
        const std::tuple whole_cost(late, cost, placement->latency);
        if (best && !(whole_cost < best_cost)) continue;
        best = std::move(placement);
        best_cost = whole_cost;
      }
    }
  }
  if (!best) return std::nullopt;
  return Found{std::move(*best), std::get<0>(best_cost), std::get<1>(best_cost)};
}

}  // namespace lambent::slice_scheduling
