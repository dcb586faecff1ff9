#include "node/worker/pipeline_planning.h"

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lambent::worker {
namespace {

using pipeline::IsolationRule;
using Planned = PipelineFunctions::Planned;

// What a node has for a pipeline. In whatever order it names its slices, it is the same set.
struct NodeSet {
  using Shape = std::tuple<Bytes, unsigned, std::string>;  // memory, multiprocessors, name
  std::vector<Shape> slices;
  Bytes largest_gpu;

  auto operator<=>(const NodeSet&) const = default;
};

Bytes memory_of(const NodeSet& set) {
  Bytes all = set.largest_gpu;
  for (const NodeSet::Shape& shape : set.slices) all += std::get<Bytes>(shape);
  return all;
}

// The different ones, those with the most memory first: what one of them holds, a node that has at
// least the same slices holds too.
std::vector<NodeSet> sets_of(const OtherNodes& others, IsolationRule rule) {
  std::set<NodeSet> different;
  for (size_t node = 0; node < others.slices.size(); ++node) {
    NodeSet set;
    if (rule != IsolationRule::kShared) {
      for (const SliceShape& shape : others.slices[node]) {
        set.slices.emplace_back(shape.memory, shape.multiprocessors, shape.name);
      }
      std::ranges::sort(set.slices, std::greater());
    }
    if (rule != IsolationRule::kSlices) {
      for (const Bytes gpu : others.gpus[node]) set.largest_gpu = std::max(set.largest_gpu, gpu);
    }
    if (memory_of(set) > Bytes(0)) different.insert(std::move(set));
  }
  std::vector<NodeSet> sets(different.begin(), different.end());
  std::ranges::stable_sort(sets, std::greater(), memory_of);
  return sets;
}

// Plans are the same for nodes that differ only in how many slices they have of a shape.
NodeSet shapes_of(NodeSet set) {
  set.slices.erase(std::unique(set.slices.begin(), set.slices.end()), set.slices.end());
  return set;
}

// This node's setting with what the other one has.
PipelineSetting setting_of(const NodeSet& set, const PipelineSetting& here) {
  PipelineSetting there = here;
  there.slices.clear();
  for (const auto& [memory, multiprocessors, name] : set.slices) {
    const DeviceId id(static_cast<uint32_t>(there.slices.size()) + 1);
    there.slices.push_back({.id = id, .uuid = {}, .shape = {name, multiprocessors, memory}});
  }
  there.shared.shape = {};
  if (set.largest_gpu > Bytes(0)) {
    there.shared.shape.memory = set.largest_gpu + there.shared.context;
  }
  return there;
}

}  // namespace

PipelineElsewhere look_elsewhere(const OtherNodes& others, const PipelineSetting& here,
                                 const FunctionSpec& spec, const PipelinePackage& package) {
  const std::vector<NodeSet> sets = sets_of(others, package.definition.isolation);
  PipelineElsewhere found{.sets = sets.size()};
  std::map<NodeSet, Result<Planned>> plans;
  for (const NodeSet& set : sets) {
    if (found.fits || found.tried == kMostSetsTried) break;
    ++found.tried;
    const PipelineSetting there = setting_of(set, here);
    NodeSet shapes = shapes_of(set);
    auto plan = plans.find(shapes);
    if (plan == plans.end()) {
      plan = plans.emplace(std::move(shapes), PipelineFunctions::check(there, spec, package)).first;
    }
    found.fits =
        plan->second.ok() && PipelineFunctions::could_serve(there, spec, package, **plan->second);
  }
  found.plans = plans.size();
  return found;
}

Result<Planned> plan_deployed(const OtherNodes& others, const PipelineSetting& here,
                              const FunctionSpec& spec, const PipelinePackage& package) {
  RETURN_IF_ERROR(PipelineFunctions::check_package(spec, package));
  auto planned = PipelineFunctions::check(here, spec, package);
  if (planned.ok()) return planned;
  if (others.judged) return PipelineFunctions::kept_for_others(here, spec, package);
  const PipelineElsewhere found = look_elsewhere(others, here, spec, package);
  if (found.fits) return PipelineFunctions::kept_for_others(here, spec, package);
  Error error = planned.error();
  if (found.tried < found.sets) {
    error.message += "; other nodes have " + std::to_string(found.sets) +
                     " different sets of slices, of which the " + std::to_string(found.tried) +
                     " with the most memory were tried, and none has what it takes (give nodes the "
                     "same slices)";
  } else if (!others.slices.empty()) {
    error.message += "; no other node of the cluster has what it takes either";
  }
  return error;
}

}  // namespace lambent::worker
