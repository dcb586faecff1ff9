#include "decide/pipeline/rank_rule.h"

namespace lambent::pipeline {

std::string_view name_of(RankRule rule) {
  return rule == RankRule::kBalance ? "balance" : "throughput";
}

std::optional<RankRule> rank_rule_from(std::string_view name) {
  for (const RankRule rule : {RankRule::kBalance, RankRule::kThroughput}) {
    if (name_of(rule) == name) return rule;
  }
  return std::nullopt;
}

}  // namespace lambent::pipeline
