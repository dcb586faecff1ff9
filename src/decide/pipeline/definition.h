// PipelineDefinition: what the author of a pipeline function says of it, as pipeline.json in its
// package has it. A value; read when the function is deployed, never changed afterwards.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "core/base/time.h"
#include "decide/pipeline/dag.h"
#include "decide/pipeline/isolation_rule.h"
#include "decide/pipeline/rank_rule.h"

namespace lambent::pipeline {

struct NoSlo {
  bool operator==(const NoSlo&) const = default;
};
// As a multiple of the time of the whole function by itself (planner.h, time_alone).
struct SloScale {
  double factor = 1;
  bool operator==(const SloScale&) const = default;
};
// From submission to result.
using Slo = std::variant<NoSlo, Duration, SloScale>;

struct PipelineDefinition {
  std::string handler;  // "app.App": module and class
  Dag dag;
  Slo slo;
  unsigned most_batch = 1;
  std::optional<RankRule> rank;  // none: as the worker does it
  IsolationRule isolation = IsolationRule::kSlices;

  bool operator==(const PipelineDefinition&) const = default;
};

}  // namespace lambent::pipeline
