#include "bench/paper_fluidfaas/metrics.h"

#include <algorithm>

#include "bench/json.h"
#include "bench/paper_fluidfaas/plan.h"

namespace lambent::paper_fluidfaas {

using bench::Joined;
using bench::number;

namespace {

double ratio(double a, double b) { return a / std::max(1e-9, b); }

}  // namespace

std::span<const Metric> metrics() {
  using F = const Figures&;
  static const std::vector<Metric> kMetrics = [] {
    std::vector<Metric> all = {
        {"throughput_ratio", "saturated",
         [](F ours, F it) { return ratio(ours.throughput_per_s, it.throughput_per_s); }},
        {"by_work_ratio", "saturated",
         [](F ours, F it) { return ratio(ours.share_of_bound(), it.share_of_bound()); }},
        {"by_work_most", "saturated", [](F, F it) { return ratio(1, it.share_of_bound()); }},
        {"share_of_bound", "saturated", [](F ours, F) { return ours.share_of_bound(); }},
        {"share_of_placed", "saturated", [](F ours, F) { return ours.share_of_placed(); }}};
    for (const char* point : {"full", "trace"}) {
      all.push_back(
          {"slo_hit_gain_pct", point, [](F ours, F it) { return ours.hit_pct - it.hit_pct; }});
      all.push_back(
          {"slo_hit_ratio", point, [](F ours, F it) { return ratio(ours.hit_pct, it.hit_pct); }});
      all.push_back({"p95_reduction_pct", point,
                     [](F ours, F it) { return 100 * (1 - ratio(ours.p95_s, it.p95_s)); }});
      all.push_back(
          {"mig_time", point, [](F ours, F it) { return ratio(it.mig_time_s, ours.mig_time_s); }});
      all.push_back(
          {"gpu_time", point, [](F ours, F it) { return ratio(it.gpu_time_s, ours.gpu_time_s); }});
      all.push_back(
          {"mig_held", point, [](F ours, F it) { return ratio(it.mig_held_s, ours.mig_held_s); }});
      all.push_back(
          {"gpu_held", point, [](F ours, F it) { return ratio(it.gpu_held_s, ours.gpu_held_s); }});
      all.push_back({"transfer_ms", point, [](F ours, F) { return 1e3 * ours.transfer_s; }});
    }
    return all;
  }();
  return kMetrics;
}

std::vector<double> values_of(const Metric& metric, const Measured& all,
                              const std::string& baseline) {
  std::vector<double> values;
  const auto point = all.find(metric.point);
  if (point == all.end()) return values;
  const auto& ours = point->second.at(kOurs);
  const auto& theirs = point->second.at(baseline);
  for (size_t i = 0; i < ours.size(); ++i) values.push_back(metric.of(ours[i], theirs[i]));
  return values;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

std::string with_interval(const std::vector<double>& values) {
  return Joined().add("mean", mean(values)).add("half_width", half_width(values)).object();
}

}  // namespace lambent::paper_fluidfaas
