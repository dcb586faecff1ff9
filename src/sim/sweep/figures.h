// What cells of a sweep came to, and what that says over their seeds: means with confidence
// intervals. Values; pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/sweep/grid.h"
#include "sim/workload/statistics.h"

namespace lambent::sweep {

// A figure of a run that a sweep can show.
struct Metric {
  std::string_view name;   // as `lambent simulate --json` calls it
  std::string_view title;  // for people, with its unit
  // Out of a run's summary and the utilisation of its devices; nothing where the run has none, as
  // the mean of no invocation.
  std::optional<double> (*read)(const workload::Summary& summary,
                                std::optional<double> utilisation);
  bool less_is_better = true;
};
// Every one there is; the order of CellResult::figures.
const std::vector<Metric>& metrics();
std::optional<size_t> metric_index(std::string_view name);

struct CellResult {
  Cell cell;
  std::vector<std::optional<double>> figures;  // one for each of metrics()
  std::vector<std::string> assumptions = {};   // what of its trace was taken to be so
};
// Of all these, each once.
std::set<std::string> assumptions_of(const std::vector<CellResult>& results);
std::vector<std::optional<double>> figures_of(const workload::Summary& summary,
                                              std::optional<double> utilisation);

// The mean over seeds of one figure.
struct Estimate {
  size_t count = 0;
  double mean = 0;
  // Half the width of the 95 % confidence interval of the mean, by Student's t; nothing for less
  // than two seeds.
  std::optional<double> half_width;
};
Estimate estimate_of(const std::vector<double>& samples);

// The cells that differ in nothing but their seed.
struct Point {
  std::vector<std::string> values;
  std::vector<Estimate> estimates;  // one for each of metrics()
};
// In the order of the grid; points without any result are left out.
std::vector<Point> points_of(const Grid& grid, const std::vector<CellResult>& results);

}  // namespace lambent::sweep
