// profile.json: what was measured of a pipeline function, as `lambent profile` and workers write
// it. Pure functions; used by the worker, by the command line, by fuzzers.
//
//   {"profile": 1, "context_mb": 420, "start_ms": 300,
//    "shapes": {"1g.10gb": {"multiprocessors": 14, "memory_mb": 9728}},
//    "components": {"deblur": {"weights_mb": 200, "memory_mb": 900, "output_bytes": 3145728,
//                              "probability": 1.0, "ms": {"1g.10gb": 20.1},
//                              "batch_ms": {"1g.10gb": {"4": 31.5}}}}}
//
// A MB is 1,048,576 bytes. Components that are left out were not measured; "probability" is 1
// unless said. "batch_ms": of so many requests together; none unless said.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "decide/pipeline/dag.h"
#include "decide/pipeline/profile.h"

namespace lambent::pipeline {

struct MeasuredProfile {
  PipelineProfile profile;
  std::vector<SliceShape> shapes;  // that it speaks of, by name

  bool operator==(const MeasuredProfile&) const = default;
};

// INVALID_ARGUMENT, naming component and key, for what is no profile of this DAG: unknown words and
// components, shapes that are not described, numbers out of range, limits exceeded.
Result<MeasuredProfile> parse_profile(std::string_view json, const Dag& dag);

// What parse_profile() reads back as the same value. Components without any figures, of
// probability 1, are left out.
std::string to_json(const MeasuredProfile& measured, const Dag& dag);

}  // namespace lambent::pipeline
