#include "node/worker/workflow_steps.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace lambent::worker {
namespace {

// Functions by their names, and what those that are workflows call.
class WorkflowStepsTest : public ::testing::Test {
 protected:
  void add(const std::string& name, const std::vector<std::string>& calls = {}) {
    FunctionSpec& spec = functions_[name];
    spec.id = FunctionId(functions_.size());
    spec.name = {kDefaultTenant, name};
    if (calls.empty()) return;
    spec.kind = FunctionKind::kWorkflow;
    workflow::Workflow& graph = graphs_[spec.id];
    for (const std::string& call : calls) {
      workflow::Component& component = graph.components.emplace_back();
      component.name = call;
      component.function = call;
    }
  }
  std::vector<std::string> steps(const std::string& name) {
    std::vector<std::string> names;
    const auto graph_of = [&](FunctionId id) -> const workflow::Workflow* {
      const auto found = graphs_.find(id);
      return found == graphs_.end() ? nullptr : &found->second;
    };
    const auto find = [&](const FunctionName& wanted) -> const FunctionSpec* {
      const auto found = functions_.find(wanted.name);
      return found == functions_.end() ? nullptr : &found->second;
    };
    for (const FunctionSpec* each : steps_of(functions_.at(name), graph_of, find)) {
      names.push_back(each->name.name);
    }
    return names;
  }

 private:
  std::map<std::string, FunctionSpec> functions_;
  std::map<FunctionId, workflow::Workflow> graphs_;
};

TEST_F(WorkflowStepsTest, TheyAreThoseOfWorkflowsThatItCallsTooEachOnce) {
  add("a");
  add("b");
  add("inner", {"b", "missing", "a"});
  add("outer", {"a", "inner", "a"});
  EXPECT_EQ(steps("outer"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(steps("a"), std::vector<std::string>{"a"});
}

TEST_F(WorkflowStepsTest, WorkflowsThatCallThemselvesEnd) {
  add("a");
  add("loop", {"a", "loop"});
  EXPECT_EQ(steps("loop"), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace lambent::worker
