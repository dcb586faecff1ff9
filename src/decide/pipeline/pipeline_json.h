// pipeline.json: a pipeline function's definition as its package carries it. Pure functions; used
// by the worker when it deploys, by the command line before it sends, by fuzzers.
//
//   {"pipeline": 1, "handler": "app.App", "inputs": ["image"],
//    "components": [{"name": "deblur", "inputs": ["$image"]},
//                   {"name": "super_resolution", "inputs": ["deblur"], "optional": true},
//                   {"name": "classify", "inputs": ["super_resolution", "$image"]}],
//    "outputs": ["classify"], "slo": {"ms": 200}, "batch": 1, "rank": "throughput"}
//
// "$name" is an input of the function, a bare name a component, which stands before those that need
// it. "slo" has either "ms" or "scale"; "slo", "batch", "rank" and "optional" may be left out.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "decide/pipeline/definition.h"

namespace lambent::pipeline {

// INVALID_ARGUMENT, naming component and key, such as "components[1] 'classify'.inputs[0]", for
// what is no definition: unknown words, wrong types, names twice, components that need what does
// not stand before them or that nothing needs, limits exceeded.
Result<PipelineDefinition> parse_pipeline(std::string_view json);

// What parse_pipeline() reads back as the same value.
std::string to_json(const PipelineDefinition& definition);

}  // namespace lambent::pipeline
