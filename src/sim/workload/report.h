// The report: several runs on one HTML page with nothing from outside - a table, the distribution
// of latencies, the functions, where the time went, the devices over time. Pure and deterministic.
// Used by `lambent report`.
#pragma once

#include <string>
#include <vector>

#include "sim/workload/result_file.h"

namespace lambent::workload {

// The runs in the order to show them; at least one.
std::string report_html(const std::vector<RunFile>& runs, const std::string& title);

}  // namespace lambent::workload
