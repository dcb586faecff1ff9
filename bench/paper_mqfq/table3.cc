#include "bench/paper_mqfq/table3.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/json.h"
#include "bench/paper_mqfq/plots.h"

namespace lambent::paper_mqfq {

using bench::Joined;
using bench::number;
using bench::quoted;
using bench::truth;

namespace {

using Columns = std::vector<const System*>;

Columns columns_of(const Bench& bench) {
  Columns columns;
  for (const System& system : systems()) columns.push_back(&system);
  for (const System& system : bench.best) columns.push_back(&system);
  return columns;
}

// The ratios of a system's figure to the faithful MQFQ-Sticky's, of chosen workloads, by seed.
using Chosen = std::vector<const Workload*>;
std::vector<std::vector<double>> over_faithful(Bench& bench, const Chosen& chosen,
                                               const System& system, double Figures::*of) {
  std::vector<std::vector<double>> all;
  for (const Workload* workload : chosen) {
    all.push_back(ratios(bench.runs.of(*workload, system, bench.plan.site),
                         bench.runs.of(*workload, system_named("mqfq"), bench.plan.site), of));
  }
  return all;
}

sweep::Estimate geo(Bench& bench, const Chosen& chosen, const System& system,
                    double Figures::*of = &Figures::mean_s) {
  return sweep::estimate_of(geometric_means(over_faithful(bench, chosen, system, of)));
}

Chosen of_all(const std::vector<Workload>& workloads) {
  Chosen chosen;
  for (const Workload& workload : workloads) chosen.push_back(&workload);
  return chosen;
}

Chosen judged(const std::vector<Workload>& workloads) {
  Chosen chosen = of_all(workloads);
  std::erase_if(chosen, [](const Workload* one) { return one->use == Use::kTraining; });
  return chosen;
}

void print_table(Bench& bench, const Chosen& chosen) {
  std::printf("\nmean latency in seconds, %s; (training) chose settings; every figure simulated\n",
              name_of(bench.plan.site).c_str());
  const char* kShown[] = {"mqfq",  "mqfq-nodup", "fcfs",  "fcfs-stays", "fcfs-holds",
                          "batch", "uniform",    "naive", "batch+",     kShipped};
  std::printf("%-19s %5s %5s", "trace", "rho", "req/s");
  for (const char* name : kShown) std::printf(" %10s", name);
  std::printf("   paper: mqfq   fcfs  batch\n");
  for (const Workload* workload : chosen) {
    std::printf("%-19s %5.2f %5.2f",
                (workload->name + (workload->use == Use::kTraining ? " (training)" : "")).c_str(),
                workload->load(), workload->per_second());
    for (const char* name : kShown) {
      const auto mean =
          estimate(bench.runs.of(*workload, system_named(name), bench.plan.site), &Figures::mean_s);
      std::printf(" %10.3f", mean.mean);
    }
    if (workload->paper_row) {
      const PaperRow& row = paper_rows()[*workload->paper_row];
      std::printf("   %11.3f %6.3f %6.3f", row.mqfq_s, row.fcfs_s, row.batch_s);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

void print_figures(Bench& bench, const Chosen& chosen, const char* title) {
  std::printf(
      "\n%s: geometric mean over the faithful mqfq, ± half a 95 %% interval; arithmetic means of "
      "shares\n",
      title);
  std::printf("%-16s %15s %15s %15s %15s %9s %6s %8s %5s  %s\n", "system", "mean", "p99",
              "variance", "slowdown", "gap s", "cold%", "gpucold%", "util", "settings");
  for (const System* system : columns_of(bench)) {
    std::printf("%-16s", system->name.c_str());
    for (const auto of :
         {&Figures::mean_s, &Figures::p99_s, &Figures::variance, &Figures::slowdown}) {
      const auto ratio = geo(bench, chosen, *system, of);
      std::printf(" %8.3f ±%5.3f", ratio.mean, ratio.half_width.value_or(0));
    }
    workload::Mean gap, cold, gpu_cold, utilisation;
    for (const Workload* workload : chosen) {
      const auto& all = bench.runs.of(*workload, *system, bench.plan.site);
      gap.add(estimate(all, &Figures::service_gap_s).mean);
      cold.add(estimate(all, &Figures::cold).mean);
      gpu_cold.add(estimate(all, &Figures::gpu_cold).mean);
      utilisation.add(estimate(all, &Figures::utilisation).mean);
    }
    std::printf(" %9.2f %6.1f %8.1f %5.2f  %s\n", gap.mean(), 100 * cold.mean(),
                100 * gpu_cold.mean(), utilisation.mean(), settings_of(*system).c_str());
  }
}

std::string json_of_trace(Bench& bench, const Workload& workload) {
  Joined all, over;
  for (const System* system : columns_of(bench)) {
    all.add(system->name, json_of(bench.runs.of(workload, *system, bench.plan.site)));
    over.add(system->name,
             json_of(sweep::estimate_of(
                 over_faithful(bench, {&workload}, *system, &Figures::mean_s).front())));
  }
  Joined row;
  row.add("family", quoted(workload.family))
      .add("use", quoted(workload.use == Use::kTraining ? "training" : "judged"))
      .add("load", workload.load())
      .add("per_s", workload.per_second())
      .add("invocations", static_cast<double>(workload.arrivals.size()))
      .add("functions", static_cast<double>(workload.functions.size()));
  if (workload.paper_row) {
    const PaperRow& paper = paper_rows()[*workload.paper_row];
    row.add("paper", Joined()
                         .add("trace", quoted(paper.trace))
                         .add("mqfq", paper.mqfq_s)
                         .add("fcfs", paper.fcfs_s)
                         .add("batch", paper.batch_s)
                         .add("fcfs_over_mqfq", paper.fcfs_s / paper.mqfq_s)
                         .add("batch_over_mqfq", paper.batch_s / paper.mqfq_s)
                         .object());
  }
  return row.add("over_mqfq", over.object()).add("systems", all.object()).object();
}

std::string json_of_geo(Bench& bench, const Chosen& chosen) {
  Joined by_system;
  for (const System* system : columns_of(bench)) {
    Joined members;
    members.add("settings", quoted(settings_of(*system)));
    for (const Figure& figure : figures()) {
      if (figure.of == &Figures::failed || figure.of == &Figures::service_gap_s ||
          figure.of == &Figures::on_host || figure.of == &Figures::cold ||
          figure.of == &Figures::gpu_cold) {
        continue;  // may be zero: no geometric mean
      }
      members.add(figure.name, json_of(geo(bench, chosen, *system, figure.of)));
    }
    by_system.add(system->name, members.object());
  }
  return by_system.object();
}

// The paper's claims, and ours over the faithful policy.
void judge(Bench& bench, const Chosen& nine, const Chosen& other) {
  Goals& goals = bench.goals;
  const System& ours = system_named(kShipped);
  const System& mqfq = system_named("mqfq");
  const auto value = [&](const char* name) { return geo(bench, nine, system_named(name)).mean; };
  const auto at_least = [&](const char* name, const char* claim, double is, double wanted,
                            const char* decided_by) {
    goals.push_back({name, "at least " + number(wanted), is, is >= wanted, decided_by, claim});
  };
  const auto at_most = [&](const std::string& name, const char* claim, double is, double wanted,
                           const char* decided_by) {
    goals.push_back({name, "at most " + number(wanted), is, is <= wanted, decided_by, claim});
  };
  // In how many rows the first has the lower mean.
  const auto count = [&](const Chosen& chosen, const System& system, const System& than) {
    double better = 0;
    for (const Workload* workload : chosen) {
      const auto ratio = ratios(bench.runs.of(*workload, system, bench.plan.site),
                                bench.runs.of(*workload, than, bench.plan.site), &Figures::mean_s);
      better += sweep::estimate_of(ratio).mean < 1 ? 1 : 0;
    }
    return better;
  };
  at_least("FCFS over MQFQ", "fcfs", value("fcfs"), 2.5,
           "what FCFS does with memory, functions' memory, the pool");
  at_least("Batch over MQFQ", "batch", value("batch"), 1.1, "second containers, D, the pool");
  at_least("uniform cost over MQFQ", "uniform", value("uniform"), 1.5,
           "how unlike the functions are");
  const auto compare = [&](const Chosen& chosen, const std::string& where, double most_batch_wins) {
    const char* order = "order and eviction";
    const char* tail = "how long heavy functions wait";
    at_most("ours over MQFQ, mean" + where, "ours", geo(bench, chosen, ours).mean, 0.6, order);
    at_most("rows where ours is worse than MQFQ" + where, "ours", count(chosen, mqfq, ours), 0,
            order);
    at_most("rows where Batch with our eviction beats ours" + where, "batch+_over_ours",
            count(chosen, system_named("batch+"), ours), most_batch_wins, "order alone");
    at_most("ours over MQFQ, variance" + where, "ours_variance",
            geo(bench, chosen, ours, &Figures::variance).mean, 1, tail);
    at_most("ours over MQFQ, p99" + where, "ours_p99",
            geo(bench, chosen, ours, &Figures::p99_s).mean, 1, tail);
  };
  compare(nine, "", 1);
  compare(judged(bench.workloads.nine), ", the six not trained on", 1);
  if (!other.empty()) {
    compare(other, ", other families", std::floor(static_cast<double>(other.size()) / 9));
  }
}

void plot(Bench& bench, const Chosen& nine) {
  if (bench.plan.plots.empty()) return;
  BarChart chart{.title = "Table 3: mean latency on the nine traces, " + name_of(bench.plan.site),
                 .up = "s"};
  for (const Workload* workload : nine) chart.groups.push_back(workload->name);
  for (const char* name : {"mqfq", "fcfs", "batch", "uniform", "batch+", kShipped}) {
    chart.series.push_back({name, {}});
    for (const Workload* workload : nine) {
      const auto& all = bench.runs.of(*workload, system_named(name), bench.plan.site);
      chart.series.back().values.push_back(estimate(all, &Figures::mean_s).mean);
    }
  }
  save_plot(bench.plan.plots, "table3", bar_chart(chart));
}

}  // namespace

std::string table3(Bench& bench) {
  const Chosen nine = of_all(bench.workloads.nine);
  const Chosen others = judged(bench.workloads.others);
  Chosen all = nine;
  all.insert(all.end(), others.begin(), others.end());
  print_table(bench, all);
  print_figures(bench, nine, "the nine");
  print_figures(bench, judged(bench.workloads.nine), "the judged six of the nine");
  if (!others.empty()) print_figures(bench, others, "traces of other families, all judged");
  judge(bench, nine, others);
  plot(bench, nine);
  Joined traces;
  for (const Workload* workload : all) traces.add(workload->name, json_of_trace(bench, *workload));
  Joined geo;
  geo.add("nine", json_of_geo(bench, nine));
  geo.add("judged_of_nine", json_of_geo(bench, judged(bench.workloads.nine)));
  if (!others.empty()) geo.add("other_families", json_of_geo(bench, others));
  return Joined().add("traces", traces.object()).add("geo", geo.object()).object();
}

}  // namespace lambent::paper_mqfq
