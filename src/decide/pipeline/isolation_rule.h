// IsolationRule: where a pipeline function may run, as its author says in pipeline.json. A value;
// isolation.h makes the choice that it leaves.
#pragma once

#include <optional>
#include <string_view>

namespace lambent::pipeline {

enum class IsolationRule {
  kSlices,  // on slices of its own, cut into stages where that is needed
  kShared,  // whole, in one process on a device that all other functions share
  kAuto,    // on either, as it suits
};
std::string_view name_of(IsolationRule rule);  // "slices", "shared", "auto"
std::optional<IsolationRule> isolation_rule_from(std::string_view name);

}  // namespace lambent::pipeline
