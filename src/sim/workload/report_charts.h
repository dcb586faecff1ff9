// The pictures of the report, each one <svg>. Pure; used by report.
#pragma once

#include <string>
#include <vector>

#include "sim/workload/result_file.h"

namespace lambent::workload {

// A run as the report shows it.
struct ShownRun {
  const RunFile* file = nullptr;
  std::string label;
  std::string colour;  // the CSS classes "c0", "c1", ... give it its colour
  Summary summary;
};

std::string latency_chart(const std::vector<ShownRun>& runs);
// Mean latency by function, of the functions that have the most invocations.
std::string function_chart(const std::vector<ShownRun>& runs);
// The mean latency cut into queue, cold start, run and the rest.
std::string breakdown_chart(const std::vector<ShownRun>& runs);
// Empty if no run has readings of the devices.
std::string utilisation_chart(const std::vector<ShownRun>& runs);
// Invocations that wait for their answers, over time; empty without readings.
std::string in_flight_chart(const std::vector<ShownRun>& runs);

// How far the flow that is ahead most is ahead of the global virtual time; empty without readings.
std::string lag_chart(const std::vector<ShownRun>& runs);
// The share of cold starts by time of arrival; empty if nothing started cold.
std::string cold_chart(const std::vector<ShownRun>& runs);
// What ran when on each device, for the first some hundred invocations; empty unless the runs say
// on which device.
std::string timeline_chart(const std::vector<ShownRun>& runs);

constexpr size_t kShownFunctions = 32;

}  // namespace lambent::workload
