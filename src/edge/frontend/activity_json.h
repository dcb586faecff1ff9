// What the dashboard reads, in JSON, with the keys that api/openapi.yaml promises. Free functions;
// any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/domain/activity.h"

namespace lambent::frontend {

nlohmann::json to_json(const EndedInvocation& invocation);
nlohmann::json to_json(const LiveInvocationStatus& invocation);
nlohmann::json to_json(const GpuRun& run);
nlohmann::json to_json(const FunctionActivity& activity);
// The buckets that are not empty: [[upper bound in ms, count], ...].
nlohmann::json to_json(const LatencyHistogram& histogram);
nlohmann::json to_json(const FunctionGraph& graph);

}  // namespace lambent::frontend
