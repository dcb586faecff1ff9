#include "bench/paper_mqfq/figures.h"

#include <algorithm>
#include <cstdio>

#include "bench/json.h"
#include "bench/paper_mqfq/plots.h"

namespace lambent::paper_mqfq {

using bench::Joined;
using bench::number;
using bench::quoted;

namespace {

// The traces that stand for the paper's of a figure, by their places in Table 3.
const Workload& high_intensity(const Bench& bench) { return bench.workloads.nine[2]; }  // 25.7
const Workload& few_requests(const Bench& bench) { return bench.workloads.nine[5]; }    // 25.8
const Workload& medium(const Bench& bench) { return bench.workloads.nine[8]; }          // 25.7095

std::string shown(const sweep::Estimate& estimate, double scale = 1) {
  char text[48];
  std::snprintf(text, sizeof(text), "%8.3f ±%6.3f", scale * estimate.mean,
                scale * estimate.half_width.value_or(0));
  return text;
}

// The geometric mean over the nine of mean latencies, by seed.
sweep::Estimate geo_of_nine(Bench& bench, const System& system, const Site& site) {
  std::vector<std::vector<double>> by_trace;
  for (const Workload& workload : bench.workloads.nine) {
    by_trace.emplace_back();
    for (const Figures& one : bench.wide_runs.of(workload, system, site)) {
      by_trace.back().push_back(one.mean_s);
    }
  }
  return sweep::estimate_of(geometric_means(by_trace));
}

System with_over_run(const std::string& name, double over_run_s) {
  System system = system_named(name);
  system.options.mqfq.over_run = from_seconds(over_run_s);
  return system;
}

void save(const Bench& bench, const std::string& name, const LineChart& chart) {
  if (!bench.plan.plots.empty()) save_plot(bench.plan.plots, name, line_chart(chart));
}

}  // namespace

std::string figure6(Bench& bench) {
  const Workload& workload = high_intensity(bench);
  std::printf(
      "\nFigure 6: one and two GPUs, %s, mean latency, s (paper: 2.3 x lower at D 1, 4 x at "
      "more)\n",
      workload.name.c_str());
  Joined rows;
  LineChart chart{.title = "Figure 6: one and two GPUs, " + workload.name,
                  .across = "D of each GPU",
                  .up = "mean latency, s",
                  .logarithmic_up = true};
  for (const char* name : {"mqfq", kShipped}) {
    for (const auto& [gpus, pool] : {std::pair(1U, 16U), std::pair(2U, 16U), std::pair(2U, 32U)}) {
      LineChart::Line line{.name = std::string(name) + ", " + std::to_string(gpus) +
                                   (gpus == 1 ? " GPU, pool " : " GPUs, pool ") +
                                   std::to_string(pool)};
      std::printf("%-24s", line.name.c_str());
      for (const unsigned tokens : {1U, 2U, 3U, 4U}) {
        const Site site{.gpus = gpus, .tokens = tokens, .pool = pool};
        const auto& one = bench.wide_runs.of(workload, system_named(name), {.tokens = tokens});
        const auto& all = bench.wide_runs.of(workload, system_named(name), site);
        const auto mean = estimate(all, &Figures::mean_s);
        const auto ratio = sweep::estimate_of(ratios(one, all, &Figures::mean_s));
        std::printf("  D %u %s (%5.2f x)", tokens, shown(mean).c_str(), ratio.mean);
        line.points.emplace_back(tokens, mean.mean);
        rows.add(Joined()
                     .add("system", quoted(name))
                     .add("gpus", gpus)
                     .add("pool", pool)
                     .add("D", tokens)
                     .add("mean_s", json_of(mean))
                     .add("times_lower_than_one_gpu", json_of(ratio))
                     .add("execution_over_warm", json_of(estimate(all, &Figures::execution)))
                     .object());
      }
      std::printf("\n");
      chart.lines.push_back(line);
    }
  }
  save(bench, "figure6", chart);
  return Joined().add("trace", quoted(workload.name)).add("rows", rows.list()).object();
}

std::string figure7(Bench& bench) {
  const Workload& workload = medium(bench);
  const std::vector<unsigned> pools = {4, 8, 12, 16, 20, 24};
  std::printf(
      "\nFigure 7: share of cold starts by pool, %% (paper: MQFQ 2 to 8 at every pool and D, FCFS "
      "50 at 4)\n%-28s",
      "");
  for (const unsigned pool : pools) std::printf(" %8u", pool);
  std::printf("\n");
  Joined rows;
  LineChart chart{.title = "Figure 7: cold starts by pool, " + workload.name + ", D 2",
                  .across = "containers in the pool",
                  .up = "cold starts, %"};
  for (const char* name : {"mqfq", "fcfs", "batch", kShipped}) {
    for (const unsigned tokens : {1U, 2U, 3U}) {
      LineChart::Line line{.name = name};
      std::string of_nine;
      std::printf(
          "%-28s",
          (std::string(name) + ", D " + std::to_string(tokens) + ", " + workload.name).c_str());
      for (const unsigned pool : pools) {
        const Site site{.tokens = tokens, .pool = pool};
        const auto cold =
            estimate(bench.wide_runs.of(workload, system_named(name), site), &Figures::cold);
        workload::Mean nine;
        for (const Workload& each : bench.workloads.nine) {
          nine.add(
              estimate(bench.wide_runs.of(each, system_named(name), site), &Figures::cold).mean);
        }
        char text[24];
        std::snprintf(text, sizeof(text), " %8.1f", 100 * nine.mean());
        of_nine += text;
        std::printf(" %8.1f", 100 * cold.mean);
        line.points.emplace_back(pool, 100 * cold.mean);
        rows.add(Joined()
                     .add("system", quoted(name))
                     .add("D", tokens)
                     .add("pool", pool)
                     .add("cold_ratio", json_of(cold))
                     .add("cold_ratio_of_nine", nine.mean())
                     .object());
        if (std::string(name) == "fcfs" && tokens == 2 && pool == 4) {
          const double is = 100 * nine.mean();
          bench.goals.push_back({"FCFS, cold starts at pool 4, D 2, mean of the nine, %",
                                 "40 to 60", is, is >= 40 && is <= 60, "the pool"});
        }
        if (std::string(name) == "mqfq" && tokens == 2 && (pool == 4 || pool == 24)) {
          const double is = 100 * nine.mean();
          bench.goals.push_back(
              {"MQFQ, cold starts at pool " + std::to_string(pool) + ", D 2, mean of the nine, %",
               "2 to 8", is, is >= 2 && is <= 8, "the pool"});
        }
      }
      std::printf("\n%-28s%s\n", "   mean of the nine", of_nine.c_str());
      if (tokens == 2) chart.lines.push_back(line);
    }
  }
  save(bench, "figure7", chart);
  return Joined().add("trace", quoted(workload.name)).add("rows", rows.list()).object();
}

std::string figure8(Bench& bench) {
  const Workload& workload = high_intensity(bench);
  const std::vector<double> over_runs_s = {0.5, 1, 2, 5, 10, 20, 40};
  std::printf(
      "\nFigure 8: mean latency by T, s (paper: falls with T; uniform cost over 3 x worse)\n%-16s",
      "");
  for (const double over_run_s : over_runs_s) std::printf(" %15g s", over_run_s);
  std::printf("\n");
  Joined rows;
  LineChart chart{.title = "Figure 8: mean latency by T, geometric mean of the nine",
                  .across = "T, s",
                  .up = "mean latency, s",
                  .logarithmic_across = true,
                  .logarithmic_up = true};
  for (const char* name : {"mqfq", "mqfq-nodup", "uniform", kShipped}) {
    LineChart::Line line{.name = name};
    std::string of_nine;
    double rises = 0, before = 0, first = 0, last = 0;
    std::printf("%-16s", (std::string(name) + ", " + workload.name).c_str());
    for (const double over_run_s : over_runs_s) {
      const System system = with_over_run(name, over_run_s);
      const auto mean =
          estimate(bench.wide_runs.of(workload, system, bench.plan.site), &Figures::mean_s);
      const auto nine = geo_of_nine(bench, system, bench.plan.site);
      std::printf(" %s", shown(mean).c_str());
      of_nine += " " + shown(nine);
      line.points.emplace_back(over_run_s, nine.mean);
      rows.add(Joined()
                   .add("system", quoted(name))
                   .add("T_s", over_run_s)
                   .add("mean_s", json_of(mean))
                   .add("geo_mean_s_of_nine", json_of(nine))
                   .object());
      if (over_run_s > 10) continue;
      if (before > 0) rises = std::max(rises, nine.mean / before);
      if (before == 0) first = nine.mean;
      last = before = nine.mean;
    }
    std::printf("\n%-16s%s\n", "   of the nine", of_nine.c_str());
    chart.lines.push_back(line);
    if (std::string(name) == "mqfq") {
      bench.goals.push_back({"MQFQ, mean at T 10 s over that at 0.5 s, the nine", "at most 1",
                             last / first, last <= first, "cold starts that batching saves"});
      bench.goals.push_back({"MQFQ, largest step as T goes 0.5, 1, 2, 5, 10 s", "at most 1", rises,
                             rises <= 1, "cold starts that batching saves"});
    }
  }
  save(bench, "figure8", chart);
  return Joined().add("trace", quoted(workload.name)).add("rows", rows.list()).object();
}

std::string figure9a(Bench& bench) {
  const Workload& workload = few_requests(bench);
  std::printf(
      "\nFigure 9a: how long an empty flow stays active, %s (paper: 0.1 s for all gives -25 %%, "
      "alpha 1.5 up to -50 %%)\n",
      workload.name.c_str());
  Joined rows;
  LineChart chart{.title = "Figure 9a: mean latency by TTL, " + workload.name,
                  .across = "alpha (times the gap between calls), or seconds for all",
                  .up = "mean latency, s"};
  for (const unsigned pool : {8U, 16U}) {
    for (const bool global : {false, true}) {
      LineChart::Line line{.name = std::string(global ? "seconds" : "alpha") + ", pool " +
                                   std::to_string(pool)};
      std::printf("%-18s", line.name.c_str());
      for (const double value : {0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0}) {
        System system = system_named("mqfq");
        scheduling::MqfqOptions& mqfq = system.options.mqfq;
        if (global) {
          // Any gap times that many is more than the cap.
          mqfq.anticipation = value > 0 ? 1e12 : 0;
          mqfq.longest_anticipation = from_seconds(value);
        } else {
          mqfq.anticipation = value;
          mqfq.longest_anticipation = seconds(1'000'000);
        }
        const auto& all = bench.wide_runs.of(workload, system, {.pool = pool});
        const auto mean = estimate(all, &Figures::mean_s);
        std::printf(" %g: %.2f±%.2f", value, mean.mean, mean.half_width.value_or(0));
        line.points.emplace_back(value, mean.mean);
        rows.add(Joined()
                     .add("pool", pool)
                     .add(global ? "seconds" : "alpha", value)
                     .add("mean_s", json_of(mean))
                     .add("cold_ratio", json_of(estimate(all, &Figures::cold)))
                     .add("execution_over_warm", json_of(estimate(all, &Figures::execution)))
                     .object());
      }
      std::printf("\n");
      chart.lines.push_back(line);
    }
  }
  save(bench, "figure9a", chart);
  return Joined().add("trace", quoted(workload.name)).add("rows", rows.list()).object();
}

std::string figure9bc(Bench& bench) {
  const Workload& workload = high_intensity(bench);
  std::printf(
      "\nFigures 9b, 9c: D fixed and by utilisation, %s: time at work over D 1's; mean latency, s "
      "(paper: twice at D 6; D 2 best)\n",
      workload.name.c_str());
  Joined rows;
  LineChart runs{.title = "Figure 9b: time at work over D 1's, mqfq, " + workload.name,
                 .across = "D, or the most that utilisation allows",
                 .up = "run time over D 1's"};
  LineChart means{.title = "Figure 9c: mean latency, mqfq, " + workload.name,
                  .across = runs.across,
                  .up = "mean latency, s",
                  .logarithmic_up = true};
  struct Contention {
    double slowdown;
    bool starts_contend;
  };
  for (const auto& [slowdown, starts] :
       {Contention{0.1, false}, Contention{0.2, false}, Contention{0.4, false},
        Contention{0.2, true}, Contention{0.4, true}}) {
    Constants constants;
    constants.slowdown = slowdown;
    constants.starts_contend = starts;
    const auto alone = bench.wide_runs.of(workload, system_named("mqfq"), {.tokens = 1}, constants);
    for (const double threshold : {0.0, 0.5, 0.8, 0.9}) {
      const std::string name = threshold > 0 ? "below " + number(100 * threshold) + " %" : "fixed";
      LineChart::Line run_line{.name = name}, mean_line{.name = name};
      std::printf("slowdown %.1f%s %-10s", slowdown, starts ? ", starts too" : "            ",
                  name.c_str());
      for (const unsigned most : {1U, 2U, 3U, 4U, 6U}) {
        Site site{.tokens = most};
        if (threshold > 0) site.by_utilisation = scheduling::UtilisationOptions{threshold, most};
        const auto all = bench.wide_runs.of(workload, system_named("mqfq"), site, constants);
        const auto run = sweep::estimate_of(ratios(all, alone, &Figures::run_s));
        const auto mean = estimate(all, &Figures::mean_s);
        std::printf("  %u: %.2f, %6.2f ±%.2f", most, run.mean, mean.mean,
                    mean.half_width.value_or(0));
        run_line.points.emplace_back(most, run.mean);
        mean_line.points.emplace_back(most, mean.mean);
        rows.add(Joined()
                     .add("slowdown", slowdown)
                     .add("starts_contend", bench::truth(starts))
                     .add("threshold", threshold > 0 ? number(threshold) : "null")
                     .add("D", most)
                     .add("run_over_D1", json_of(run))
                     .add("mean_s", json_of(mean))
                     .add("utilisation", json_of(estimate(all, &Figures::utilisation)))
                     .object());
      }
      std::printf("\n");
      if (slowdown == 0.2 && !starts) {
        runs.lines.push_back(run_line);
        means.lines.push_back(mean_line);
      }
    }
  }
  save(bench, "figure9b", runs);
  save(bench, "figure9c", means);
  return Joined().add("trace", quoted(workload.name)).add("rows", rows.list()).object();
}

}  // namespace lambent::paper_mqfq
