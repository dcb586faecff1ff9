// The comparison repeated on one part of the loads after the other, so that its ratios have
// intervals: on loads that the settings were not chosen on, what one part says may be chance.
// Functions over values; one thread.
#pragma once

#include <string>
#include <vector>

#include "bench/paper_streambox/experiments.h"

namespace lambent::paper_streambox {

// Ours over each baseline, at their best settings and with a process for every waiting call, part
// by part: means with half of their 95 % confidence intervals. Prints as it goes; returns the
// members "parts", "ratios" and "eager_processes" as a JSON object.
std::string compare_parts(const Plan& plan, const Models& models, const Constants& constants,
                          const std::vector<Load>& loads, unsigned parts);

// Ours over Stream-only under a light load, by how long ours keeps weights that nobody uses; JSON
// of the ratios (of answers in time there are none) and of each point.
std::string compare_weights(const Plan& plan, const Models& models, const Constants& constants,
                            const std::vector<Load>& loads, unsigned parts);

}  // namespace lambent::paper_streambox
