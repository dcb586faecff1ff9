#include "bench/paper_streambox/parts.h"

#include <cmath>
#include <cstdio>

#include "bench/json.h"
#include "sim/sweep/figures.h"

namespace lambent::paper_streambox {

using bench::Joined;

namespace {

struct Metric {
  const char* name;
  double Ratios::*of;
};
constexpr Metric kMetrics[] = {{"memory_reduction_pct", &Ratios::memory_reduction_pct},
                               {"throughput_ratio", &Ratios::throughput_ratio},
                               {"e2e_p50_ratio", &Ratios::p50_ratio},
                               {"e2e_p99_ratio", &Ratios::p99_ratio},
                               {"e2e_mean_ratio", &Ratios::mean_ratio}};

using ByPart = std::vector<std::map<System, Ratios>>;

void print_part(const char* title, unsigned part, const std::map<System, Ratios>& ratios) {
  for (const auto& [system, one] : ratios) {
    std::printf(
        "%-24s part %u  %-12s memory less %5.1f %%, answers %6.2f x, p50 %5.2f x, p99 %5.2f x, "
        "mean %6.2f x\n",
        title, part + 1, name_of(system), one.memory_reduction_pct, one.throughput_ratio,
        one.p50_ratio, one.p99_ratio, one.mean_ratio);
  }
  std::fflush(stdout);
}

std::string json_of(const char* title, const ByPart& parts) {
  Joined systems;
  for (const auto& [system, unused] : parts.front()) {
    Joined metrics;
    std::printf("%-24s all     %-12s", title, name_of(system));
    for (const Metric& metric : kMetrics) {
      // Of a part in which the baseline answered nothing in time there is no ratio: null.
      std::vector<double> values;
      Joined each;
      for (const auto& part : parts) {
        const double value = part.at(system).*metric.of;
        each.add(bench::number(value));
        if (std::isfinite(value)) values.push_back(value);
      }
      const sweep::Estimate estimate = sweep::estimate_of(values);
      if (!values.empty()) {
        std::printf(" %s %.2f ±%.2f", metric.name, estimate.mean, estimate.half_width.value_or(0));
      }
      metrics.add(
          metric.name,
          Joined()
              .add("mean", values.empty() ? std::string("null") : bench::number(estimate.mean))
              .add("half_width",
                   estimate.half_width ? bench::number(*estimate.half_width) : std::string("null"))
              .add("by_part", each.list())
              .object());
    }
    std::printf("\n");
    systems.add(name_of(system), metrics.object());
  }
  return systems.object();
}

}  // namespace

std::string compare_parts(const Plan& plan, const Models& models, const Constants& constants,
                          const std::vector<Load>& loads, unsigned parts) {
  ByPart best, eager;
  for (unsigned part = 0; part < parts; ++part) {
    Plan one = plan;
    one.seeds = 1;
    one.first_part = part;
    best.push_back(ratios_of(compare(one, models, constants, loads)));
    print_part("at their best", part, best.back());
    one.eager = true;
    one.systems = {System::kInfless, System::kAstraea, System::kStreamBox};
    if (!plan.quick) one.scales = {0.3, 1, 3};
    eager.push_back(ratios_of(compare(one, models, constants, loads)));
    print_part("a process for each call", part, eager.back());
  }
  const std::string ratios = json_of("at their best", best);
  return Joined()
      .add("parts", static_cast<double>(parts))
      .add("ratios", ratios)
      .add("eager_processes", json_of("a process for each call", eager))
      .object();
}

std::string compare_weights(const Plan& plan, const Models& models, const Constants& constants,
                            const std::vector<Load>& loads, unsigned parts) {
  Joined all;
  for (const auto kept : {KeptWeights::kMinute, KeptWeights::kRuntime}) {
    ByPart ratios;
    Joined cells;
    for (unsigned part = 0; part < parts; ++part) {
      Plan one = plan;
      one.seeds = 1;
      one.first_part = part;
      one.scales = {};
      one.systems = {System::kStreamOnly, System::kStreamBox};
      one.weights = kept;
      const std::vector<Cell> found = compare(one, models, constants, loads);
      ratios.push_back(ratios_of(found));
      for (const Cell& cell : found) {
        Joined told;
        for (const auto& [system, run] : cell.light) {
          told.add(name_of(system), Joined()
                                        .add("p50_ms", 1e3 * run.p50_s)
                                        .add("p99_ms", 1e3 * run.p99_s)
                                        .add("memory_mb", run.memory_bytes / 1e6)
                                        .add("loads", static_cast<double>(run.loads))
                                        .object());
        }
        cells.add(Joined()
                      .add("workflow", "\"" + cell.workflow + "\"")
                      .add("load", "\"" + cell.load + "\"")
                      .add("part", static_cast<double>(part + 1))
                      .add("systems", told.object())
                      .object());
      }
    }
    const std::string told = json_of(name_of(kept), ratios);
    all.add(name_of(kept), Joined().add("ratios", told).add("cells", cells.list()).object());
  }
  return all.object();
}

}  // namespace lambent::paper_streambox
