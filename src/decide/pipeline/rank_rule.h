// RankRule: by what partitions are ranked, before anybody knows which slices will be free. A value;
// named in pipeline.json and in a worker's configuration.
#pragma once

#include <optional>
#include <string_view>

namespace lambent::pipeline {

enum class RankRule {
  kBalance,     // the paper's: by the coefficient of variation of the stages' times, ascending
  kThroughput,  // ours: by results a second for each multiprocessor taken, hand-overs counted
};
std::string_view name_of(RankRule rule);  // "balance", "throughput"
std::optional<RankRule> rank_rule_from(std::string_view name);

}  // namespace lambent::pipeline
