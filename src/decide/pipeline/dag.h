// Dag: what a pipeline function consists of: components and which of them needs what of which.
// A value; read from pipeline.json, never changed afterwards, any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lambent::pipeline {

// Where a component's input comes from: an input of the function, or another component's output.
struct Source {
  enum class Kind { kInput, kComponent } kind = Kind::kComponent;
  size_t index = 0;  // into Dag::inputs or Dag::components

  bool operator==(const Source&) const = default;
};

struct Component {
  std::string name;
  std::vector<Source> inputs;  // at least one
  // It has a condition: where that does not hold, it does not run, and its first input passes
  // through as its output.
  bool optional = false;

  bool operator==(const Component&) const = default;
};

struct Dag {
  std::vector<std::string> inputs;
  std::vector<Component> components;  // each after all that it needs
  std::vector<size_t> outputs;        // components whose outputs are the function's

  bool operator==(const Dag&) const = default;
};

}  // namespace lambent::pipeline
