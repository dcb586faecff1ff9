// paper_streambox_bench [--quick] [--out FILE] [--traces DIR] [--seed N] [--parts N]
// [--sweep [SYSTEM]] [--weights]: the StreamBox paper's comparison in a model of its node: three
// workflows of neural networks under INFless, the same with its own scaler, Astraea, Stream-only
// and ours, whose pool, object store and transfers are decided by the production policies. Prints
// tables and, as its last line, one JSON object. All of it is simulated.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "bench/json.h"
#include "bench/paper_streambox/experiments.h"
#include "bench/paper_streambox/inputs.h"
#include "bench/paper_streambox/parts.h"
#include "sim/workload/csv.h"

namespace lambent::paper_streambox {

using bench::Joined;
using bench::number;
using bench::write_last_line;

namespace {

constexpr System kBaselines[] = {System::kInfless, System::kAstraea, System::kInflessScaler,
                                 System::kStreamOnly};

std::string json_of(const RunResult& run) {
  return Joined()
      .add("requests", static_cast<double>(run.requests))
      .add("goodput_per_s", run.goodput())
      .add("late_pct", 100 * run.late_share())
      .add("p50_ms", 1e3 * run.p50_s)
      .add("p90_ms", 1e3 * run.p90_s)
      .add("p99_ms", 1e3 * run.p99_s)
      .add("mean_ms", 1e3 * run.mean_s)
      .add("memory_mb", run.memory_bytes / 1e6)
      .add("peak_memory_mb", run.peak_memory_bytes / 1e6)
      .add("idle_memory_mb", run.idle_memory_bytes / 1e6)
      .add("pool_mb", run.pool_bytes / 1e6)
      .add("startup_ms", 1e3 * run.startup_s)
      .add("first_startup_ms", 1e3 * run.first_startup_s)
      .add("communication_ms", 1e3 * run.communication_s)
      .add("loading_ms", 1e3 * run.loading_s)
      .add("compute_ms", 1e3 * run.compute_s)
      .add("loads", static_cast<double>(run.loads))
      .add("starts", static_cast<double>(run.starts))
      .add("to_neighbours", static_cast<double>(run.to_neighbours))
      .add("to_host", static_cast<double>(run.to_host))
      .object();
}

std::string json_of(const Ratios& ratios) {
  return Joined()
      .add("memory_reduction_pct", ratios.memory_reduction_pct)
      .add("throughput_ratio", ratios.throughput_ratio)
      .add("e2e_p50_ratio", ratios.p50_ratio)
      .add("e2e_p99_ratio", ratios.p99_ratio)
      .add("e2e_mean_ratio", ratios.mean_ratio)
      .object();
}

void print_cells(const Plan& plan, const std::vector<Cell>& cells) {
  std::printf("%-8s %-9s %-14s %10s %9s %9s %9s %9s %9s %9s %8s %8s\n", "workflow", "load",
              "system", "best/s", "p50 ms", "p99 ms", "mean ms", "GB", "idle GB", "comm. ms",
              "late%", "late%");
  std::printf("%-8s %-9s %-14s %10s %9s %9s %9s %9s %9s %9s  x%-6g  x%-6g\n", "", "", "",
              "any load", "light", "light", "light", "light", "light", "light", plan.light,
              plan.busy);
  for (const Cell& cell : cells) {
    for (const System system : plan.systems) {
      const RunResult& light = cell.light.at(system);
      std::printf("%-8s %-9s %-14s %10.2f %9.1f %9.0f %9.0f %9.2f %9.2f %9.2f %8.1f %8.1f\n",
                  cell.workflow.c_str(), cell.load.c_str(), name_of(system),
                  cell.best_goodput.at(system), 1e3 * light.p50_s, 1e3 * light.p99_s,
                  1e3 * light.mean_s, light.memory_bytes / 1e9, light.idle_memory_bytes / 1e9,
                  1e3 * light.communication_s, 100 * light.late_share(),
                  100 * cell.busy.at(system).late_share());
    }
  }
}

std::string json_of(const std::vector<Cell>& cells) {
  Joined rows;
  for (const Cell& cell : cells) {
    Joined systems;
    for (const auto& [system, unused] : cell.goodputs) {
      Joined goodputs;
      for (const double goodput : cell.goodputs.at(system)) goodputs.add(number(goodput));
      systems.add(name_of(system), Joined()
                                       .add("best_goodput_per_s", cell.best_goodput.at(system))
                                       .add("goodput_by_scale", goodputs.list())
                                       .add("light", json_of(cell.light.at(system)))
                                       .add("busy", json_of(cell.busy.at(system)))
                                       .object());
    }
    rows.add(Joined()
                 .add("workflow", "\"" + cell.workflow + "\"")
                 .add("load", "\"" + cell.load + "\"")
                 .add("systems", systems.object())
                 .object());
  }
  return rows.list();
}

// Mean over cells of one figure of a system.
template <typename Of>
double mean_of(const std::vector<Cell>& cells, Of of) {
  double sum = 0;
  for (const Cell& cell : cells) sum += of(cell);
  return sum / static_cast<double>(cells.size());
}

std::string by_system(const std::vector<Cell>& cells, double (*of)(const Cell&, System)) {
  Joined systems;
  for (const System system : kSystems) {
    systems.add(name_of(system),
                mean_of(cells, [&](const Cell& cell) { return of(cell, system); }));
  }
  return systems.object();
}

void print_ratios(const std::map<System, Ratios>& ratios) {
  const auto paper_of = [](System system) -> std::pair<double, double> {
    if (system == System::kAstraea) return {82, 5.3};
    if (system == System::kStreamOnly) return {71, 1.46};
    return {79, 6.7};
  };
  std::printf("\nours against each, geometric means over workflows and loads (the paper)\n");
  std::printf("%-14s %18s %18s %10s %10s\n", "", "memory less, %", "answers in time", "p50",
              "mean");
  std::fflush(stdout);
  for (const auto& [system, one] : ratios) {
    const auto [memory, throughput] = paper_of(system);
    std::printf("%-14s %9.0f (%3.0f)    %9.2f (%4.2f)   %9.2f  %9.2f\n", name_of(system),
                one.memory_reduction_pct, memory, one.throughput_ratio, throughput, one.p50_ratio,
                one.mean_ratio);
  }
}

std::string print_over_stream_only(const std::vector<Cell>& cells) {
  Joined systems;
  std::printf("\nmean memory over Stream-only's, geometric means over workflows and loads\n");
  for (const auto& [system, over] : memory_over_stream_only(cells)) {
    std::printf("%-14s %9.2f\n", name_of(system), over);
    systems.add(name_of(system), over);
  }
  std::fflush(stdout);
  return systems.object();
}

std::string ablation(const char* title, const std::vector<Variant>& variants) {
  std::printf("\n%s\n%-42s %9s %9s %9s %9s %9s %9s %9s %7s %8s %8s\n", title, "", "pool MB", "GB",
              "p50 ms", "start ms", "comm. ms", "load ms", "comp. ms", "late%", "to near",
              "to host");
  Joined rows;
  for (const Variant& variant : variants) {
    const RunResult& run = variant.result;
    std::printf("%-42s %9.1f %9.2f %9.1f %9.2f %9.2f %9.2f %9.2f %7.1f %8llu %8llu\n",
                variant.name.c_str(), run.pool_bytes / 1e6, run.memory_bytes / 1e9, 1e3 * run.p50_s,
                1e3 * run.startup_s, 1e3 * run.communication_s, 1e3 * run.loading_s,
                1e3 * run.compute_s, 100 * run.late_share(),
                static_cast<unsigned long long>(run.to_neighbours),
                static_cast<unsigned long long>(run.to_host));
    rows.add(variant.name, json_of(run));
  }
  std::fflush(stdout);
  return rows.object();
}

// The ratios as they are, and with each constant halved and doubled, over fewer runs than the
// comparison itself.
std::pair<std::string, std::string> sensitivity(const Plan& plan, const std::vector<Load>& loads) {
  Plan short_plan = plan;
  short_plan.seeds = 1;
  short_plan.scales = {1};
  short_plan.bursty_minutes = 1;
  const std::vector<Load> some(loads.begin(), loads.begin() + 1);
  const std::vector<Workflow> shown = {workflows()[plan.quick ? 2 : 1]};
  const auto ratios_with = [&](const Constants& constants) {
    return ratios_of(compare(short_plan, make_models(constants), constants, some, shown));
  };
  const auto json = [](const std::map<System, Ratios>& ratios) {
    Joined all;
    for (const auto& [system, one] : ratios) all.add(name_of(system), json_of(one));
    return all.object();
  };
  const auto base = ratios_with(Constants{});
  std::printf(
      "\nhow the ratios follow each input: halved, as it is, doubled (%s, %s)\n"
      "%-24s %-24s %-24s %-24s %-22s\n",
      plan.quick ? "social" : "traffic", some[0].name.c_str(), "", "memory less than",
      "answers, over", "answers, over", "mean latency,");
  std::printf("%-24s %-24s %-24s %-24s %-22s\n", "", "stream-only, %", "infless", "stream-only",
              "infless");
  Joined rows;
  for (const Input& input : inputs()) {
    std::map<System, Ratios> changed[2];
    for (const int doubled : {0, 1}) {
      Constants constants;
      constants.*input.value *= doubled == 1 ? 2 : 0.5;
      changed[doubled] = ratios_with(constants);
    }
    const auto three = [&](System system, double Ratios::*of) {
      char text[64];
      std::snprintf(text, sizeof(text), "%.3g  %.3g  %.3g", changed[0].at(system).*of,
                    base.at(system).*of, changed[1].at(system).*of);
      return std::string(text);
    };
    // A guess that moves a ratio by more than a fifth makes it an illustration.
    Joined illustrative;
    for (const System system : kBaselines) {
      for (const auto& [name, of] : {std::pair("throughput_ratio", &Ratios::throughput_ratio),
                                     std::pair("e2e_p50_ratio", &Ratios::p50_ratio)}) {
        const double is = base.at(system).*of;
        bool moved = !std::isfinite(is);
        for (const auto& one : changed)
          moved = moved || std::abs(one.at(system).*of / is - 1) > 0.2;
        if (moved && input.guess)
          illustrative.add("\"" + std::string(name) + " over " + name_of(system) + "\"");
      }
    }
    std::printf("%-24s %-24s %-24s %-24s %-22s%s\n", input.name,
                three(System::kStreamOnly, &Ratios::memory_reduction_pct).c_str(),
                three(System::kInfless, &Ratios::throughput_ratio).c_str(),
                three(System::kStreamOnly, &Ratios::throughput_ratio).c_str(),
                three(System::kInfless, &Ratios::mean_ratio).c_str(),
                illustrative.list() == "[]" ? "" : " illustrative");
    std::fflush(stdout);
    const Constants constants;
    rows.add(Joined()
                 .add("name", "\"" + std::string(input.name) + "\"")
                 .add("value", constants.*input.value / input.unit)
                 .add("source", "\"" + std::string(input.source) + "\"")
                 .add("guess", input.guess ? "true" : "false")
                 .add("halved", json(changed[0]))
                 .add("doubled", json(changed[1]))
                 .add("illustrative", illustrative.list())
                 .object());
  }
  return {json(base), rows.list()};
}

std::string print_networks(const Models& models) {
  std::printf("%-13s %10s %8s %10s %8s %9s %12s\n", "network", "weights MB", "GFLOP", "alone ms",
              "fills", "peak MB", "whole MB");
  Joined rows;
  for (const Model& model : models) {
    const BatchModel& one = model.batches[0];
    const auto peak = static_cast<double>(one.profile.peak().count) / 1e6;
    const auto whole = static_cast<double>(one.profile.whole.count) / 1e6;
    std::printf("%-13s %10.1f %8.1f %10.2f %8.2f %9.1f %12.1f\n", name_of(model.network),
                model.weight_bytes / 1e6, model.operations / 1e9, 1e3 * one.alone_s, one.demand,
                peak, whole);
    rows.add(name_of(model.network), Joined()
                                         .add("weights_mb", model.weight_bytes / 1e6)
                                         .add("gflop", model.operations / 1e9)
                                         .add("alone_ms", 1e3 * one.alone_s)
                                         .add("fills", one.demand)
                                         .add("peak_mb", peak)
                                         .add("whole_mb", whole)
                                         .object());
  }
  std::printf("\n");
  return rows.object();
}

// Of one system, or of all.
int run_sweep(const Plan& plan, const Models& models, const Constants& constants,
              const char* only) {
  // Chosen on loads of our own, which the comparison does not use.
  const std::vector<Load> loads = generated_loads(7, 400);
  for (const System system : kSystems) {
    if (only != nullptr && std::strcmp(only, name_of(system)) != 0) continue;
    std::printf("%s: share of requests in time, mean memory, setting\n", name_of(system));
    for (const Candidate& candidate : sweep(plan, models, constants, loads, system)) {
      std::printf("  %.4f %6.2f GB  %s\n", candidate.in_time_share, candidate.memory_gb,
                  candidate.name.c_str());
    }
    std::fflush(stdout);
  }
  return 0;
}

int run(const Plan& plan, const std::vector<Load>& loads, const char* source, const char* out) {
  const Constants constants;
  const Models models = make_models(constants);
  std::printf("%ssimulated: 4 x V100-16GB, loads %s, %u seeds\n\n", plan.quick ? "QUICK RUN; " : "",
              source, plan.seeds);
  const std::string networks = print_networks(models);
  const std::vector<Cell> cells = compare(plan, models, constants, loads);
  print_cells(plan, cells);
  const auto ratios = ratios_of(cells);
  print_ratios(ratios);

  // What is left of it if processes are started for every call, as the paper's baselines do.
  Plan eager_plan = plan;
  eager_plan.eager = true;
  eager_plan.systems = {System::kInfless, System::kAstraea, System::kStreamBox};
  eager_plan.seeds = 1;
  if (!plan.quick) eager_plan.scales = {0.3, 1, 3};
  std::printf("\nbaselines that start a process for every call that finds none idle\n");
  const std::vector<Cell> eager_cells = compare(eager_plan, models, constants, loads);
  print_cells(eager_plan, eager_cells);
  const auto eager_ratios = ratios_of(eager_cells);
  print_ratios(eager_ratios);

  const Load& busiest = loads[0];
  Joined ablations;
  ablations.add("pool", ablation("pool for temporaries: traffic, as much as can be in time",
                                 pool_ablation(plan, models, constants, busiest)));
  ablations.add("store", ablation("object store: traffic beside a task that leaves little memory",
                                  store_ablation(plan, models, constants, busiest)));
  ablations.add("loading", ablation("loading: traffic on one device, no weights kept",
                                    loading_ablation(plan, models, constants, loads[1])));
  ablations.add("weights", ablation("weights kept by ours: traffic, periodic",
                                    weights_ablation(plan, models, constants, loads[1])));
  Joined tenants;
  for (const unsigned count : {3u, 6u}) {
    const std::string title = "traffic of " + std::to_string(count) + " tenants on one device";
    tenants.add(std::to_string(count),
                ablation(title.c_str(), share_a_device(plan, models, constants, loads[1], count)));
  }
  const auto [as_it_is, inputs] = sensitivity(plan, loads);

  Joined result;
  result.add("bench", "\"paper-streambox\"")
      .add("quick", plan.quick ? "true" : "false")
      .add("simulated", "true")
      .add("loads", "\"" + std::string(source) + "\"");
  for (const auto& [system, one] : ratios) result.add(name_of(system), json_of(one));
  result.add("memory_over_stream_only", print_over_stream_only(cells));
  Joined eager;
  for (const auto& [system, one] : eager_ratios) eager.add(name_of(system), json_of(one));
  result.add("eager_processes", eager.object());
  Joined scales;
  for (const double scale : plan.scales) scales.add(number(scale));
  result
      .add("startup_ms",
           by_system(cells, [](const Cell& cell,
                               System system) { return 1e3 * cell.light.at(system).startup_s; }))
      .add("first_startup_ms", by_system(cells,
                                         [](const Cell& cell, System system) {
                                           return 1e3 * cell.light.at(system).first_startup_s;
                                         }))
      .add("idle_memory_mb", by_system(cells,
                                       [](const Cell& cell, System system) {
                                         return cell.light.at(system).idle_memory_bytes / 1e6;
                                       }))
      .add("slo_violation_pct",
           by_system(cells, [](const Cell& cell,
                               System system) { return 100 * cell.busy.at(system).late_share(); }))
      .add("ablations", ablations.object())
      .add("tenants", tenants.object())
      .add("inputs", inputs)
      .add("inputs_as_they_are", as_it_is)
      .add("scales", scales.list())
      .add("networks", networks)
      .add("cells", json_of(cells));
  const std::string json = result.object();
  return write_last_line(json, out);
}

// `only_weights`: what becomes of keeping weights, instead of the comparison.
int run_parts(const Plan& plan, const std::vector<Load>& loads, unsigned parts, bool only_weights,
              const char* out) {
  const Constants constants;
  const Models models = make_models(constants);
  std::printf("simulated: 4 x V100-16GB, %u parts of the loads, chance from seed %llu on\n", parts,
              static_cast<unsigned long long>(plan.seed));
  const std::string json =
      Joined()
          .add("bench", "\"paper-streambox\"")
          .add("quick", plan.quick ? "true" : "false")
          .add("simulated", "true")
          .add("seed", static_cast<double>(plan.seed))
          .add(only_weights ? "weights" : "comparison",
               only_weights ? compare_weights(plan, models, constants, loads, parts)
                            : compare_parts(plan, models, constants, loads, parts))
          .object();
  return write_last_line(json, out);
}

}  // namespace
}  // namespace lambent::paper_streambox

int main(int count, char** arguments) {
  using namespace lambent::paper_streambox;
  Plan plan;
  const char *out = nullptr, *traces = nullptr, *swept = nullptr;
  bool sweeps = false, weights = false;
  uint64_t parts = 0;
  const auto whole = [](const char* text) { return lambent::workload::whole_number_of(text); };
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--quick") == 0) {
      plan.quick = true;
      plan.seeds = 1;
      plan.scales = {0.3, 1};
      plan.bursty_minutes = 1;
      plan.periodic_minutes = 10;
      plan.sporadic_minutes = 60;
    } else if (std::strcmp(arguments[i], "--sweep") == 0) {
      sweeps = true;
      const auto is_named = [&](System system) {
        return i + 1 < count && std::strcmp(arguments[i + 1], name_of(system)) == 0;
      };
      if (std::ranges::any_of(kSystems, is_named)) swept = arguments[++i];
    } else if (std::strcmp(arguments[i], "--out") == 0 && i + 1 < count) {
      out = arguments[++i];
    } else if (std::strcmp(arguments[i], "--traces") == 0 && i + 1 < count) {
      traces = arguments[++i];
    } else if (std::strcmp(arguments[i], "--seed") == 0 && i + 1 < count &&
               whole(arguments[i + 1])) {
      plan.seed = *whole(arguments[++i]);
    } else if (std::strcmp(arguments[i], "--weights") == 0) {
      weights = true;
    } else if (std::strcmp(arguments[i], "--parts") == 0 && i + 1 < count &&
               whole(arguments[i + 1]).value_or(0) > 0 && *whole(arguments[i + 1]) <= 100) {
      parts = *whole(arguments[++i]);
    } else {
      std::fprintf(stderr,
                   "usage: paper_streambox_bench [--quick] [--out FILE] [--traces DIR] [--seed N] "
                   "[--parts 1..100] [--sweep [SYSTEM]] [--weights]\n");
      return 2;
    }
  }
  if (sweeps) return run_sweep(plan, make_models(Constants{}), Constants{}, swept);
  const auto loads = traces == nullptr
                         ? lambent::Result<std::vector<Load>>(generated_loads(plan.seed, 500))
                         : read_loads(traces);
  if (!loads.ok()) {
    std::fprintf(stderr, "paper_streambox_bench: %s\n", loads.error().message.c_str());
    return 1;
  }
  if (weights) parts = std::max<uint64_t>(parts, 1);
  if (parts > 0) return run_parts(plan, *loads, static_cast<unsigned>(parts), weights, out);
  return run(plan, *loads, traces == nullptr ? "generated" : "of the traces", out);
}
