// What ours is held against a baseline by: each figure of the claims, from both at one point.
// Functions over values.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/paper_fluidfaas/experiments.h"

namespace lambent::paper_fluidfaas {

struct Metric {
  std::string name;
  std::string point;  // of kPoints
  double (*of)(const Figures& ours, const Figures& baseline) = nullptr;
};
// Ratios of times are the baseline's over ours; all others are ours over it, or less it.
std::span<const Metric> metrics();

// By point and system, by seed.
using Measured = std::map<std::string, std::map<std::string, std::vector<Figures>>>;

// Each seed's value; of what was not run, none.
std::vector<double> values_of(const Metric& metric, const Measured& all,
                              const std::string& baseline);
double mean(const std::vector<double>& values);
// {"mean":..,"half_width":..}: of the 95 % confidence interval.
std::string with_interval(const std::vector<double>& values);

}  // namespace lambent::paper_fluidfaas
