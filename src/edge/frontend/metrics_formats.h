// What is made of the worker's metrics for those who read them: OpenMetrics' form of the text, and
// Triton's names for what models do. Pure functions over Prometheus' text, format 0.0.4.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/domain/function.h"

namespace lambent::frontend {

constexpr std::string_view kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kOpenMetricsType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

// Whether an Accept header asks for OpenMetrics, and no more for another text.
bool wants_openmetrics(std::string_view accept);
// The same metrics. Counters whose names do not end in _total, which are none there, are of type
// unknown.
std::string openmetrics_of(std::string_view text);

// The metrics that dashboards for Triton read, of each function that `is_model` knows as one.
// Labels: model, version (always 1) and tenant.
std::string triton_metrics(std::string_view text,
                           const std::function<bool(const FunctionName&)>& is_model);

}  // namespace lambent::frontend
