#include "tests/scenarios/slices/given.h"

#include <algorithm>
#include <cstdio>

#include "decide/pipeline/planner.h"
#include "decide/slice_scheduling/make_policy.h"

namespace lambent::slice_scenario {
namespace {

constexpr unsigned kMultiprocessorsOfOne = 14;
constexpr uint64_t kMibOfOneGb = 972;
constexpr Duration kStop = milliseconds(100);

void expect_end(Words& words) {
  if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
}

}  // namespace

SliceShape shape_named(const std::string& name) {
  unsigned compute = 0, memory_gb = 0;
  int used = 0;
  if (std::sscanf(name.c_str(), "%1ug.%3ugb%n", &compute, &memory_gb, &used) != 2 ||
      static_cast<size_t>(used) != name.size() || compute < 1 || compute > 7 || memory_gb < 1) {
    throw Failure("'" + name + "' is no shape of a slice; write it like 2g.20gb");
  }
  return {name, compute * kMultiprocessorsOfOne, Bytes::mib(memory_gb * kMibOfOneGb)};
}

bool Given::read(Words& words) {
  if (words.take("policy")) {
    policy_ = words.take_any();
    policy();
  } else if (words.take("link")) {
    link_per_s_ = words.bytes();
    if (link_per_s_.count == 0) throw Failure("a link has a rate above 0");
  } else if (words.take("slice")) {
    read_slice(words);
  } else if (words.take("function")) {
    read_function(words);
  } else if (words.take("component")) {
    read_component(words);
  } else {
    return false;
  }
  expect_end(words);
  return true;
}

void Given::read_slice(Words& words) {
  Slice slice{.id = DeviceId(static_cast<uint32_t>(words.count())), .uuid = "MIG"};
  for (const Slice& each : slices_) {
    if (each.id == slice.id) throw Failure("there is a slice with this number already");
  }
  slice.shape = shape_named(words.take_any());
  if (words.take("gpu")) slice.gpu = static_cast<uint32_t>(words.count());
  if (words.take("node")) slice.node = static_cast<uint32_t>(words.count());
  slices_.push_back(slice);
}

void Given::read_function(Words& words) {
  const std::string name = words.take_any();
  const FunctionId id(static_cast<uint32_t>(drafts_.size() + 1));
  if (!ids_.emplace(name, id).second) throw Failure("there is a function '" + name + "' already");
  Draft& draft = drafts_.emplace_back();
  pipeline::PipelineFunction& function = draft.function;
  function.id = id;
  function.dag.inputs = {"input"};
  function.profile.start = seconds(1);
  while (!words.done()) {
    if (words.take("slo")) {
      function.slo = words.duration();
    } else if (words.take("start")) {
      function.profile.start = words.duration();
    } else if (words.take("context")) {
      function.profile.context = words.bytes();
    } else if (words.take("batch")) {
      function.most_batch = static_cast<unsigned>(words.count());
    } else if (words.take("rank")) {
      const bool balance = words.take("balance");
      if (!balance) words.expect("throughput");
      draft.rank = balance ? pipeline::RankRule::kBalance : pipeline::RankRule::kThroughput;
    } else if (words.take("slower-than-profiled")) {
      slowdown_[id] = words.number();
    } else {
      return;
    }
  }
}

void Given::read_component(Words& words) {
  if (drafts_.empty()) throw Failure("a component comes after the function that it is part of");
  pipeline::PipelineFunction& function = drafts_.back().function;
  pipeline::Component component{.name = words.take_any(), .inputs = {}};
  pipeline::ComponentProfile profile{.memory = Bytes::gib(2)};
  while (!words.done()) {
    if (words.take("takes")) {
      read_takes(words, profile);
    } else if (words.take("batch")) {
      read_batch(words, profile);
    } else if (words.take("memory")) {
      profile.memory = words.bytes();
    } else if (words.take("weights")) {
      profile.weights = words.bytes();
    } else if (words.take("output")) {
      profile.output = words.bytes();
    } else if (words.take("after")) {
      read_inputs(words, function.dag, component);
    } else {
      return;
    }
  }
  if (profile.time_by_shape.empty()) throw Failure("a component says how long it takes");
  if (component.inputs.empty()) {
    const size_t before = function.dag.components.size();
    component.inputs = {before == 0 ? pipeline::Source{pipeline::Source::Kind::kInput, 0}
                                    : pipeline::Source{.index = before - 1}};
  }
  function.dag.components.push_back(component);
  function.profile.components.push_back(profile);
}

// takes 100ms [on SHAPE]
void Given::read_takes(Words& words, pipeline::ComponentProfile& profile) {
  const Duration time = words.duration();
  profile.time_by_shape[shape_named(words.take("on") ? words.take_any() : "1g.10gb").name] = time;
}

// batch 4 takes 130ms [on SHAPE]
void Given::read_batch(Words& words, pipeline::ComponentProfile& profile) {
  const auto requests = static_cast<unsigned>(words.count());
  words.expect("takes");
  const Duration time = words.duration();
  const std::string shape = shape_named(words.take("on") ? words.take_any() : "1g.10gb").name;
  profile.batch_times_by_shape[shape][requests] = time;
}

// after NAME [and NAME]...; "input" is the request
void Given::read_inputs(Words& words, const pipeline::Dag& dag,
                        pipeline::Component& component) const {
  do {
    const std::string name = words.take_any();
    if (name == "input") {
      component.inputs.push_back({pipeline::Source::Kind::kInput, 0});
      continue;
    }
    const auto found = std::ranges::find(dag.components, name, &pipeline::Component::name);
    if (found == dag.components.end()) throw Failure("there is no component '" + name + "' before");
    component.inputs.push_back({.index = static_cast<size_t>(found - dag.components.begin())});
  } while (words.take("and"));
}

slice_simulator::Scene Given::scene() const {
  slice_simulator::Scene scene;
  scene.slices = slices_;
  // Only what a copy takes by itself counts: links of a GPU and a node are never full.
  scene.machine.copy_gb_per_s = costs().copies_gb_per_s;
  scene.machine.gpu_gb_per_s = scene.machine.node_gb_per_s = 1000 * costs().copies_gb_per_s;
  scene.machine.handover = scene.machine.edge = Duration{};
  scene.machine.stop = kStop;
  scene.machine.slowdown = slowdown_;
  for (const Draft& draft : drafts_) {
    auto function = std::make_shared<pipeline::PipelineFunction>(draft.function);
    const auto add_shape = [&](const SliceShape& shape) {
      const auto found = std::ranges::find(function->shapes, shape.name, &SliceShape::name);
      if (found == function->shapes.end()) function->shapes.push_back(shape);
    };
    for (const Slice& slice : slices_) add_shape(slice.shape);
    std::vector<bool> is_needed(function->dag.components.size());
    for (const auto& component : function->dag.components) {
      for (const auto& input : component.inputs) {
        if (input.kind == pipeline::Source::Kind::kComponent) is_needed[input.index] = true;
      }
    }
    for (size_t i = 0; i < is_needed.size(); ++i) {
      if (!is_needed[i]) function->dag.outputs.push_back(i);
    }
    for (const auto& component : function->profile.components) {
      for (const auto& [shape, time] : component.time_by_shape) add_shape(shape_named(shape));
    }
    pipeline::PlannerOptions options;
    options.rule = draft.rank;
    options.costs = costs();
    auto ranked = pipeline::rank_partitions(*function, options);
    if (!ranked.ok()) throw Failure(ranked.error().message);
    function->ranked = std::move(ranked).value();
    scene.functions.push_back(function);
  }
  return scene;
}

std::unique_ptr<slice_scheduling::SlicePolicy> Given::policy() const {
  slice_scheduling::SlicePolicyOptions options;
  options.costs = costs();
  auto policy = slice_scheduling::make_slice_policy(policy_, options);
  if (!policy.ok()) throw Failure(policy.error().message);
  return std::move(policy).value();
}

pipeline::TransferCosts Given::costs() const {
  const double gb_per_s = static_cast<double>(link_per_s_.count) / 1e9;
  return {.copies_gb_per_s = gb_per_s, .load_gb_per_s = gb_per_s};
}

}  // namespace lambent::slice_scenario
