#include "decide/pipeline/isolation_rule.h"

namespace lambent::pipeline {

std::string_view name_of(IsolationRule rule) {
  switch (rule) {
    case IsolationRule::kSlices:
      return "slices";
    case IsolationRule::kShared:
      return "shared";
    case IsolationRule::kAuto:
      break;
  }
  return "auto";
}

std::optional<IsolationRule> isolation_rule_from(std::string_view name) {
  for (const IsolationRule rule :
       {IsolationRule::kSlices, IsolationRule::kShared, IsolationRule::kAuto}) {
    if (name_of(rule) == name) return rule;
  }
  return std::nullopt;
}

}  // namespace lambent::pipeline
