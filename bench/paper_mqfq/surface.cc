#include "bench/paper_mqfq/surface.h"

#include <cmath>
#include <cstdio>

#include "bench/json.h"
#include "bench/paper_mqfq/plots.h"

namespace lambent::paper_mqfq {

using bench::Joined;
using bench::number;
using bench::quoted;

namespace {

constexpr const char* kShown[] = {"mqfq",       "mqfq-nodup", "uniform", "fcfs",
                                  "fcfs-stays", "batch",      "batch+",  kShipped};

// One system at one point: by trace, by seed.
struct Point {
  std::string system;
  unsigned tokens = 0, pool = 0;
  double over_run_s = 0;  // 0: it has none
  std::vector<std::vector<Figures>> by_trace;
};

bool has_over_run(const System& system) {
  return system.policy.starts_with("mqfq") || system.policy == "density";
}

System at(const System& system, double over_run_s) {
  System other = system;
  if (over_run_s > 0) other.options.mqfq.over_run = from_seconds(over_run_s);
  return other;
}

Point measure(Bench& bench, const System& system, unsigned tokens, unsigned pool,
              double over_run_s) {
  Point point{system.name, tokens, pool, over_run_s, {}};
  const Site site{.tokens = tokens, .pool = pool};
  for (const Workload& workload : bench.workloads.nine) {
    point.by_trace.push_back(bench.wide_runs.of(workload, at(system, over_run_s), site));
  }
  return point;
}

// Over chosen traces: of each seed the geometric mean of the mean latencies.
std::vector<double> geo_means(const Point& point, const std::vector<size_t>& traces) {
  std::vector<std::vector<double>> values;
  for (const size_t trace : traces) {
    values.emplace_back();
    for (const Figures& one : point.by_trace[trace]) values.back().push_back(one.mean_s);
  }
  return geometric_means(values);
}

std::vector<size_t> chosen(const Bench& bench, std::optional<Use> use = {}) {
  std::vector<size_t> traces;
  for (size_t i = 0; i < bench.workloads.nine.size(); ++i) {
    if (!use || bench.workloads.nine[i].use == *use) traces.push_back(i);
  }
  return traces;
}

sweep::Estimate ratio(const Point& one, const Point& other, const std::vector<size_t>& traces) {
  const auto over = geo_means(one, traces), under = geo_means(other, traces);
  std::vector<double> values;
  for (size_t seed = 0; seed < over.size(); ++seed) values.push_back(over[seed] / under[seed]);
  return sweep::estimate_of(values);
}

double mean_over_traces(const Point& point, double Figures::*of) {
  workload::Mean mean;
  for (const auto& seeds : point.by_trace) mean.add(estimate(seeds, of).mean);
  return mean.mean();
}

const Point& find(const std::vector<Point>& points, const std::string& system, unsigned tokens,
                  unsigned pool, double over_run_s) {
  for (const Point& point : points) {
    if (point.system == system && point.tokens == tokens && point.pool == pool &&
        (point.over_run_s == 0 || point.over_run_s == over_run_s)) {
      return point;
    }
  }
  return points.front();
}

// A system's own setting of T, on the axis.
double own_over_run_s(const System& system) {
  return has_over_run(system) ? to_seconds(system.options.mqfq.over_run) : 0;
}

std::vector<Point> measure_all(Bench& bench) {
  const SurfaceAxes axes = axes_of(bench.plan);
  std::vector<Point> points;
  for (const char* name : kShown) {
    const System& system = system_named(name);
    for (const unsigned tokens : axes.tokens) {
      for (const unsigned pool : axes.pools) {
        for (const double over_run_s : axes.over_runs_s) {
          if (!has_over_run(system) && over_run_s != axes.over_runs_s.front()) continue;
          points.push_back(
              measure(bench, system, tokens, pool, has_over_run(system) ? over_run_s : 0));
        }
      }
    }
  }
  return points;
}

void print_maps(const Bench& bench, const std::vector<Point>& points) {
  const SurfaceAxes axes = axes_of(bench.plan);
  const auto all = chosen(bench);
  for (const char* name : kShown) {
    const System& system = system_named(name);
    const double over_run_s = own_over_run_s(system);
    std::printf("\n%s%s over D (down) and pool (across): %s\n", name,
                has_over_run(system) ? (", T " + number(over_run_s) + " s,").c_str() : "",
                std::string(name) == "mqfq" ? "geometric mean of mean latency, s; cold %"
                                            : "mean latency over mqfq's, same D and pool; cold %");
    std::printf("%4s", "");
    for (const unsigned pool : axes.pools) std::printf(" %20u", pool);
    std::printf("\n");
    for (const unsigned tokens : axes.tokens) {
      std::printf("%4u", tokens);
      for (const unsigned pool : axes.pools) {
        const Point& point = find(points, name, tokens, pool, over_run_s);
        const Point& mqfq = find(points, "mqfq", tokens, pool, 10);
        const auto value = std::string(name) == "mqfq" ? sweep::estimate_of(geo_means(point, all))
                                                       : ratio(point, mqfq, all);
        std::printf(" %7.2f ±%5.2f %5.1f", value.mean, value.half_width.value_or(0),
                    100 * mean_over_traces(point, &Figures::cold));
      }
      std::printf("\n");
    }
  }
  std::printf("\nT at D 2, pool 16: geometric mean of mean latency, s\n%-12s", "");
  for (const double over_run_s : axes.over_runs_s) std::printf(" %13g s", over_run_s);
  std::printf("\n");
  for (const char* name : kShown) {
    if (!has_over_run(system_named(name))) continue;
    std::printf("%-12s", name);
    for (const double over_run_s : axes.over_runs_s) {
      const auto value = sweep::estimate_of(geo_means(find(points, name, 2, 16, over_run_s), all));
      std::printf(" %8.3f ±%5.3f", value.mean, value.half_width.value_or(0));
    }
    std::printf("\n");
  }
}

// Of D and pool, of which the paper names neither: where the faithful policy's column is nearest to
// the paper's. No ratio between policies has a part in it.
std::string nearest(Bench& bench, const std::vector<Point>& points) {
  const auto all = chosen(bench);
  const Point* best = nullptr;
  double least = 0;
  for (const Point& point : points) {
    if (point.system != "mqfq" || point.over_run_s != 10) continue;
    double squares = 0;
    for (const size_t trace : all) {
      const double is = estimate(point.by_trace[trace], &Figures::mean_s).mean;
      squares += std::pow(std::log(is / paper_rows()[trace].mqfq_s), 2);
    }
    const double error = std::sqrt(squares / static_cast<double>(all.size()));
    if (best == nullptr || error < least) {
      best = &point;
      least = error;
    }
  }
  const Site site{.tokens = best->tokens, .pool = best->pool};
  std::printf(
      "\nnearest to the paper's MQFQ column: %s (off by a factor of %.2f, root mean square)\n",
      name_of(site).c_str(), std::exp(least));
  Joined ratios;
  for (const char* name : kShown) {
    const Point& point =
        find(points, name, best->tokens, best->pool, own_over_run_s(system_named(name)));
    const auto value = ratio(point, *best, all);
    std::printf("  %-12s over mqfq %6.3f ± %.3f\n", name, value.mean, value.half_width.value_or(0));
    ratios.add(name, json_of(value));
    const double wanted = std::string(name) == "fcfs"      ? 2.5
                          : std::string(name) == "batch"   ? 1.1
                          : std::string(name) == "uniform" ? 1.5
                                                           : 0;
    if (wanted > 0) {
      bench.goals.push_back({std::string(name) + " over MQFQ, " + name_of(site) +
                                 " (nearest to the paper's MQFQ column)",
                             "at least " + number(wanted), value.mean, value.mean >= wanted,
                             "the pool, which the paper does not name", name});
    }
    if (std::string(name) == kShipped) {
      bench.goals.push_back({"ours over MQFQ, mean, " + name_of(site), "at most 0.6", value.mean,
                             value.mean <= 0.6, "order and eviction", "ours"});
    }
  }
  return Joined()
      .add("site", quoted(name_of(site)))
      .add("off_by_factor", std::exp(least))
      .add("over_mqfq", ratios.object())
      .object();
}

// Each system's D and T at that pool by the training traces, judged on the others; null if nothing
// is to be chosen on any of them.
std::string own_best(const Bench& bench, const std::vector<Point>& points, unsigned pool) {
  const auto training = chosen(bench, Use::kTraining), judged = chosen(bench, Use::kJudged);
  if (training.empty()) return "null";
  const auto best_of = [&](const std::string& name) {
    const Point* best = nullptr;
    double least = 0;
    for (const Point& point : points) {
      if (point.system != name || point.pool != pool) continue;
      const double is = sweep::estimate_of(geo_means(point, training)).mean;
      if (best == nullptr || is < least) {
        best = &point;
        least = is;
      }
    }
    return best;
  };
  const Point* mqfq = best_of("mqfq");
  std::printf("\nD and T of each by the training traces at pool %u, judged on the other six:\n",
              pool);
  Joined rows;
  for (const char* name : kShown) {
    const Point* best = best_of(name);
    const auto value = ratio(*best, *mqfq, judged);
    std::printf("  %-12s D %u, T %4s s: over mqfq at its best %6.3f ± %.3f\n", name, best->tokens,
                best->over_run_s > 0 ? number(best->over_run_s).c_str() : "-", value.mean,
                value.half_width.value_or(0));
    rows.add(name, Joined()
                       .add("D", best->tokens)
                       .add("T_s", best->over_run_s > 0 ? number(best->over_run_s) : "null")
                       .add("over_mqfq_at_its_best", json_of(value))
                       .object());
  }
  return rows.object();
}

std::string rows_of(const Bench& bench, const std::vector<Point>& points) {
  const auto all = chosen(bench);
  Joined rows;
  for (const Point& point : points) {
    const Point& mqfq = find(points, "mqfq", point.tokens, point.pool, 10);
    rows.add(Joined()
                 .add("system", quoted(point.system))
                 .add("D", point.tokens)
                 .add("pool", point.pool)
                 .add("T_s", point.over_run_s > 0 ? number(point.over_run_s) : "null")
                 .add("geo_mean_s", json_of(sweep::estimate_of(geo_means(point, all))))
                 .add("over_mqfq", json_of(ratio(point, mqfq, all)))
                 .add("cold_ratio", mean_over_traces(point, &Figures::cold))
                 .add("gpu_cold_ratio", mean_over_traces(point, &Figures::gpu_cold))
                 .object());
  }
  return rows.list();
}

// The pictures of what ships keep their names when something else does.
std::string file_name_of(const std::string& system) { return system == kShipped ? "ours" : system; }

void plot(const Bench& bench, const std::vector<Point>& points) {
  if (bench.plan.plots.empty()) return;
  const SurfaceAxes axes = axes_of(bench.plan);
  const auto all = chosen(bench);
  for (const char* name : {"mqfq", kShipped, "fcfs", "batch"}) {
    const double over_run_s = own_over_run_s(system_named(name));
    HeatMap map{
        .title = std::string("Mean latency in seconds, geometric mean of nine traces: ") + name,
        .across = "containers in the pool",
        .down = "D"};
    for (const unsigned pool : axes.pools) map.columns.push_back(std::to_string(pool));
    for (const unsigned tokens : axes.tokens) {
      map.rows.push_back(std::to_string(tokens));
      map.values.emplace_back();
      for (const unsigned pool : axes.pools) {
        map.values.back().push_back(
            sweep::estimate_of(geo_means(find(points, name, tokens, pool, over_run_s), all)).mean);
      }
    }
    save_plot(bench.plan.plots, "d-pool-" + file_name_of(name), heat_map(map));
  }
  for (const char* name : {"mqfq", kShipped}) {
    HeatMap map{.title = std::string("Mean latency in seconds at D 2, nine traces: ") + name,
                .across = "containers in the pool",
                .down = "T, s"};
    for (const unsigned pool : axes.pools) map.columns.push_back(std::to_string(pool));
    for (const double over_run_s : axes.over_runs_s) {
      map.rows.push_back(number(over_run_s));
      map.values.emplace_back();
      for (const unsigned pool : axes.pools) {
        map.values.back().push_back(
            sweep::estimate_of(geo_means(find(points, name, 2, pool, over_run_s), all)).mean);
      }
    }
    save_plot(bench.plan.plots, "t-pool-" + file_name_of(name), heat_map(map));
  }
}

}  // namespace

SurfaceAxes axes_of(const Plan& plan) {
  if (plan.quick) return {{1, 2, 3}, {4, 16, 24}, {5, 10, 20}};
  return {{1, 2, 3, 4}, {4, 8, 12, 16, 20, 24}, {2, 5, 10, 20, 40}};
}

std::string surface(Bench& bench) {
  const std::vector<Point> points = measure_all(bench);
  print_maps(bench, points);
  plot(bench, points);
  Joined all;
  if (bench.workloads.nine.front().paper_row) all.add("nearest_to_paper", nearest(bench, points));
  return all.add("own_best", own_best(bench, points, 16))
      .add("points", rows_of(bench, points))
      .object();
}

}  // namespace lambent::paper_mqfq
