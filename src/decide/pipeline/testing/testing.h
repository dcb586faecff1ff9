// Functions, DAGs and slices for tests of what is cut and placed. Included by tests only.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "decide/pipeline/planner.h"

namespace lambent::pipeline {

// Components 0..count-1 with these edges (from, to); those without any take the function's input,
// those that nothing needs are its outputs.
inline Dag dag_of(size_t count, const std::vector<std::pair<size_t, size_t>>& edges) {
  Dag dag{.inputs = {"x"}};
  std::vector<bool> needed(count);
  for (size_t i = 0; i < count; ++i) dag.components.push_back({.name = "c" + std::to_string(i)});
  for (const auto& [from, to] : edges) {
    dag.components[to].inputs.push_back({Source::Kind::kComponent, from});
    needed[from] = true;
  }
  for (size_t i = 0; i < count; ++i) {
    if (dag.components[i].inputs.empty()) {
      dag.components[i].inputs.push_back({Source::Kind::kInput, 0});
    }
    if (!needed[i]) dag.outputs.push_back(i);
  }
  return dag;
}
inline Dag chain_of(size_t count) {
  std::vector<std::pair<size_t, size_t>> edges;
  for (size_t i = 1; i < count; ++i) edges.emplace_back(i - 1, i);
  return dag_of(count, edges);
}
// Each edge that a DAG can have with this probability.
inline Dag random_dag(size_t count, double probability, std::mt19937& random) {
  std::vector<std::pair<size_t, size_t>> edges;
  for (size_t to = 1; to < count; ++to) {
    for (size_t from = 0; from < to; ++from) {
      if (std::bernoulli_distribution(probability)(random)) edges.emplace_back(from, to);
    }
  }
  return dag_of(count, edges);
}

inline const SliceShape k1g{"1g.10gb", 14, Bytes::gib(10)};
inline const SliceShape k2g{"2g.20gb", 28, Bytes::gib(20)};
inline const SliceShape k3g{"3g.40gb", 42, Bytes::gib(40)};
inline const SliceShape k4g{"4g.40gb", 56, Bytes::gib(40)};

// Components that take so many ms on a 1g.10gb and gain from larger slices as far as they have
// multiprocessors; each with so much memory.
inline PipelineFunction function_of(Dag dag, const std::vector<double>& ms,
                                    const std::vector<uint64_t>& memory_gib = {}) {
  PipelineFunction function{.id = FunctionId(1), .dag = std::move(dag)};
  function.shapes = {k1g, k2g, k3g, k4g};
  for (size_t i = 0; i < function.dag.components.size(); ++i) {
    ComponentProfile profile;
    profile.weights = profile.memory = Bytes::gib(memory_gib.empty() ? 1 : memory_gib[i]);
    for (const SliceShape& shape : function.shapes) {
      profile.time_by_shape[shape.name] = from_seconds(ms[i] / 1e3 * 14 / shape.multiprocessors);
    }
    function.profile.components.push_back(profile);
  }
  return function;
}

// One slice of each shape, of one GPU of one node, with ids from 1 up.
inline std::vector<Slice> slices_of(const std::vector<SliceShape>& shapes, uint32_t node = 0) {
  std::vector<Slice> slices;
  for (const SliceShape& shape : shapes) {
    slices.push_back(
        {.id = DeviceId(static_cast<uint32_t>(slices.size()) + 1), .node = node, .shape = shape});
  }
  return slices;
}

inline Partition chain_cut(const std::vector<std::vector<size_t>>& stages) {
  Partition partition;
  for (const auto& components : stages) partition.stages.push_back({{StageProcess{components}}});
  return partition;
}

// "0 1 | 2, 3 | 4": stage processes of a stage have commas between them.
inline std::string text_of(const Partition& partition) {
  std::string text;
  for (const Stage& stage : partition.stages) {
    text += text.empty() ? "" : " | ";
    for (size_t i = 0; i < stage.stage_processes.size(); ++i) {
      text += i ? ", " : "";
      for (size_t j = 0; j < stage.stage_processes[i].components.size(); ++j) {
        text += (j ? " " : "") + std::to_string(stage.stage_processes[i].components[j]);
      }
    }
  }
  return text;
}

}  // namespace lambent::pipeline
