#include "sim/sweep/figures.h"

#include <array>
#include <cmath>

#include "core/base/check.h"

namespace lambent::sweep {
namespace {

using workload::Summary;

// A figure of the invocations that succeeded: nothing if none did.
template <double Summary::*kFigure>
std::optional<double> of_some(const Summary& summary, std::optional<double>) {
  return summary.count > 0 ? std::optional(summary.*kFigure) : std::nullopt;
}

// Student's t for a two-sided 95 % interval, by degrees of freedom from 1.
constexpr std::array<double, 30> kStudent = {
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};

double student(size_t freedom) {
  if (freedom <= kStudent.size()) return kStudent[freedom - 1];
  // The first terms of its series around the normal quantile; within 0.001 from 30 on.
  constexpr double kNormal = 1.959964;
  const auto n = static_cast<double>(freedom);
  return kNormal + (std::pow(kNormal, 3) + kNormal) / (4 * n);
}

}  // namespace

const std::vector<Metric>& metrics() {
  using Utilisation = std::optional<double>;
  static const std::vector<Metric> kMetrics = {
      {"mean_s", "mean latency, s", of_some<&Summary::mean_s>},
      {"p50_s", "median latency, s", of_some<&Summary::p50_s>},
      {"p90_s", "90th percentile of latency, s", of_some<&Summary::p90_s>},
      {"p99_s", "99th percentile of latency, s", of_some<&Summary::p99_s>},
      {"max_s", "longest latency, s", of_some<&Summary::max_s>},
      {"variance", "variance between functions, s2", of_some<&Summary::variance_between_functions>},
      {"variance_within", "variance within functions, mean of these, s2",
       of_some<&Summary::variance_within_functions>},
      {"cold_ratio", "share of cold starts", of_some<&Summary::cold_ratio>},
      {"queue_mean_s", "mean time in the queue, s", of_some<&Summary::queue_mean_s>},
      {"cold_mean_s", "mean time of cold starts, s", of_some<&Summary::cold_mean_s>},
      {"memory_mean_s", "mean time of runs before their memory was there, s",
       of_some<&Summary::memory_mean_s>},
      {"run_mean_s", "mean run time, s", of_some<&Summary::run_mean_s>},
      {"normalised_latency", "latency over warm time",
       [](const Summary& summary, Utilisation) {
         return summary.count > 0 ? summary.normalised_latency : std::nullopt;
       }},
      {"least_mean_s", "mean latency that no order could be below, s",
       [](const Summary& summary, Utilisation) { return summary.least_mean_s; }},
      {"over_least", "mean latency over that",
       [](const Summary& summary, Utilisation) {
         const auto least = summary.least_mean_s;
         return least && *least > 0 ? std::optional(summary.mean_s / *least) : std::nullopt;
       }},
      {"utilisation", "utilisation of the devices",
       [](const Summary&, Utilisation utilisation) { return utilisation; }, false},
      {"invocations", "invocations that succeeded",
       [](const Summary& summary, Utilisation) {
         return std::optional(static_cast<double>(summary.count));
       },
       false},
      {"failed", "invocations that failed",
       [](const Summary& summary, Utilisation) {
         return std::optional(static_cast<double>(summary.failed));
       }},
  };
  return kMetrics;
}

std::set<std::string> assumptions_of(const std::vector<CellResult>& results) {
  std::set<std::string> all;
  for (const CellResult& result : results) {
    all.insert(result.assumptions.begin(), result.assumptions.end());
  }
  return all;
}

std::vector<std::optional<double>> figures_of(const Summary& summary,
                                              std::optional<double> utilisation) {
  std::vector<std::optional<double>> figures;
  for (const Metric& metric : metrics()) figures.push_back(metric.read(summary, utilisation));
  return figures;
}

std::optional<size_t> metric_index(std::string_view name) {
  for (size_t i = 0; i < metrics().size(); ++i) {
    if (metrics()[i].name == name) return i;
  }
  return std::nullopt;
}

Estimate estimate_of(const std::vector<double>& samples) {
  Estimate estimate{.count = samples.size()};
  if (samples.empty()) return estimate;
  for (const double sample : samples) estimate.mean += sample;
  estimate.mean /= static_cast<double>(samples.size());
  if (samples.size() < 2) return estimate;
  double squares = 0;
  for (const double sample : samples) squares += std::pow(sample - estimate.mean, 2);
  const auto n = static_cast<double>(samples.size());
  estimate.half_width = student(samples.size() - 1) * std::sqrt(squares / (n - 1) / n);
  return estimate;
}

std::vector<Point> points_of(const Grid& grid, const std::vector<CellResult>& results) {
  using Samples = std::vector<std::vector<double>>;
  std::map<std::vector<std::string>, Samples> by_values;
  for (const CellResult& result : results) {
    CHECK(result.figures.size() == metrics().size(), "a result has every figure");
    Samples& samples = by_values[result.cell.values];
    samples.resize(metrics().size());
    for (size_t i = 0; i < samples.size(); ++i) {
      if (result.figures[i]) samples[i].push_back(*result.figures[i]);
    }
  }
  Grid without_seeds = grid;
  without_seeds.seeds = 1;
  std::vector<Point> points;
  for (const Cell& cell : without_seeds.cells()) {
    const auto found = by_values.find(cell.values);
    if (found == by_values.end()) continue;
    Point point{cell.values, {}};
    for (const auto& samples : found->second) point.estimates.push_back(estimate_of(samples));
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace lambent::sweep
