#include "bench/paper_mqfq/table4.h"

#include <cstdio>

#include "bench/json.h"
#include "bench/paper_mqfq/plots.h"

namespace lambent::paper_mqfq {

using bench::Joined;
using bench::quoted;
using scheduling::HybridOptions;
using scheduling::HybridRule;

namespace {

struct Case {
  const char* name;
  double paper_s;  // 0: it has none
  Site site;
};

std::vector<Case> cases() {
  const auto with_host = [](HybridOptions hybrid) { return Site{.host = hybrid}; };
  return {
      // No function is among the share of none.
      {"CPU alone", 2.03, with_host({.rule = HybridRule::kTopShare, .gpu_share = 0})},
      {"1 GPU", 3.43, {}},
      {"2 GPUs", 1.08, {.gpus = 2, .pool = 32}},
      {"both, top half", 1.00, with_host({.rule = HybridRule::kTopShare, .gpu_share = 0.5})},
      {"both, queueing", 0, with_host({.rule = HybridRule::kQueueing})},
  };
}

}  // namespace

std::string table4(Bench& bench) {
  const std::pair<const Workload*, const char*> shown[] = {
      {&bench.workloads.nine[2], "high intensity, the paper's 25.7"},
      {&bench.workloads.nine[8], "medium intensity, the paper's 25.7095"}};
  std::printf(
      "\nTable 4: mean latency, s; the host has %u modelled cores, Table 1's CPU times, no "
      "contention\n%-26s %8s",
      kHostCores, "", "paper");
  for (const auto& [workload, what] : shown) {
    std::printf(" %15s, %-4s %14s, %-4s", workload->name.c_str(), "mqfq", workload->name.c_str(),
                kShipped);
  }
  std::printf("      geometric mean of the nine: mqfq, %s\n", kShipped);
  Joined rows;
  BarChart chart{.title = "Table 4: mean latency, " + shown[0].first->name, .up = "s"};
  chart.series = {{"mqfq", {}}, {kShipped, {}}};
  for (const Case& one : cases()) {
    Joined row;
    row.add("case", quoted(one.name))
        .add("paper_s", one.paper_s > 0 ? bench::number(one.paper_s) : "null");
    std::printf("%-26s %8.2f", one.name, one.paper_s);
    chart.groups.push_back(one.name);
    for (const auto& [workload, what] : shown) {
      Joined systems;
      size_t series = 0;
      for (const char* name : {"mqfq", kShipped}) {
        const auto& all = bench.wide_runs.of(*workload, system_named(name), one.site);
        const auto mean = estimate(all, &Figures::mean_s);
        std::printf(" %12.3f ± %5.3f", mean.mean, mean.half_width.value_or(0));
        if (workload == shown[0].first) chart.series[series++].values.push_back(mean.mean);
        systems.add(name, Joined()
                              .add("mean_s", json_of(mean))
                              .add("p99_s", json_of(estimate(all, &Figures::p99_s)))
                              .add("on_host", json_of(estimate(all, &Figures::on_host)))
                              .object());
      }
      row.add(workload->name, systems.object());
    }
    Joined nine;
    for (const char* name : {"mqfq", kShipped}) {
      std::vector<std::vector<double>> by_trace;
      for (const Workload& workload : bench.workloads.nine) {
        by_trace.emplace_back();
        for (const Figures& figures : bench.wide_runs.of(workload, system_named(name), one.site)) {
          by_trace.back().push_back(figures.mean_s);
        }
      }
      const auto geo = sweep::estimate_of(geometric_means(by_trace));
      std::printf(" %12.3f ± %5.3f", geo.mean, geo.half_width.value_or(0));
      nine.add(name, json_of(geo));
    }
    std::printf("\n");
    rows.add(row.add("geo_mean_s_of_nine", nine.object()).object());
  }
  if (!bench.plan.plots.empty()) save_plot(bench.plan.plots, "table4", bar_chart(chart));
  // What Table 1's CPU times come to on that trace, were nobody to wait.
  Joined alone;
  for (const auto& [workload, what] : shown) {
    workload::Mean cpu;
    for (const auto& arrival : workload->arrivals) {
      cpu.add(workload->entries[arrival.function].cpu_warm_s);
    }
    std::printf("%s (%s): the mean of Table 1's CPU times over its invocations is %.2f s\n",
                workload->name.c_str(), what, cpu.mean());
    alone.add(workload->name, cpu.mean());
  }
  return Joined()
      .add("rows", rows.list())
      .add("host_cores", kHostCores)
      .add("mean_cpu_warm_s", alone.object())
      .object();
}

}  // namespace lambent::paper_mqfq
