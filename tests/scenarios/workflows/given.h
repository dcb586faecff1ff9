// Given: the first part of a workflow scenario: the workflow's components and the limits of its
// run. Used by the runner; one thread.
#pragma once

#include <memory>
#include <string>

#include "decide/workflow/run.h"
#include "tests/scenarios/words.h"

namespace lambent::workflow_scenario {

using scenario::Failure;
using scenario::Words;
using workflow::Value;

class Given {
 public:
  // Reads one line of it; false if the line belongs to the story already.
  bool read(Words& words);
  // All lines together; fails if they are no workflow.
  std::shared_ptr<const workflow::Workflow> workflow() const;
  const std::string& name() const { return name_; }
  const workflow::RunLimits& limits() const { return limits_; }

 private:
  void read_component(Words& words);
  void read_limit(Words& words);

  std::string name_ = "workflow";
  Value graph_ = {{"components", Value::array()}};
  workflow::RunLimits limits_;
};

// JSON, or a reference without quotation marks: $detect.boxes.
Value value_of(const std::string& text);

}  // namespace lambent::workflow_scenario
