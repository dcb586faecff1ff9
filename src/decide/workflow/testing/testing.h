// What the module's tests share. Included by tests only.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "decide/workflow/graph_json.h"

namespace lambent::workflow {

// {"components": [...], "output": ...} from its parts; no output: none is said.
inline std::string workflow_text(const std::string& components, const std::string& output = "") {
  return R"({"components": [)" + components + "]" +
         (output.empty() ? "" : R"(, "output": )" + output) + "}";
}

inline std::shared_ptr<const Workflow> workflow_of(const std::string& components,
                                                   const std::string& output = "") {
  auto workflow = parse_workflow(workflow_text(components, output));
  EXPECT_TRUE(workflow.ok()) << (workflow.ok() ? "" : workflow.error().message);
  return std::make_shared<const Workflow>(workflow.ok() ? std::move(workflow).value() : Workflow());
}

}  // namespace lambent::workflow
