// Reads one gauge out of a worker's /metrics. Pure; used by replay to follow the devices.
#pragma once

#include <optional>
#include <string_view>

namespace lambent::cli {

// The mean over all label sets of the metric `name` in Prometheus text; nothing if it is not there.
std::optional<double> mean_of_gauge(std::string_view metrics, std::string_view name);

}  // namespace lambent::cli
