// paper_fluidfaas_bench [--quick] [--out FILE] [--traces DIR] [--sweep SYSTEM]: FluidFaaS's
// comparison in a model of its two nodes: four applications in three sizes on three MIG layouts,
// under ESG, INFless, FluidFaaS as published, and ours, each by its production policy. Prints
// tables and, as its last line, one JSON object. All of it is simulated.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "bench/paper_fluidfaas/experiments.h"
#include "bench/paper_fluidfaas/inputs.h"
#include "bench/paper_fluidfaas/json.h"
#include "bench/paper_fluidfaas/plan.h"

namespace lambent::paper_fluidfaas {
namespace {

std::string json_of(const Figures& f) {
  Joined hits;
  for (const double hit : f.hit_pct_by_application) hits.add(number(hit));
  return Joined()
      .add("offered_per_s", f.offered_per_s)
      .add("throughput_per_s", f.throughput_per_s)
      .add("bound_per_s", f.bound_per_s)
      .add("share_of_bound", f.share_of_bound())
      .add("slo_hit_pct", f.hit_pct)
      .add("slo_hit_pct_by_application", hits.list())
      .add("p50_ms", 1e3 * f.p50_s)
      .add("p95_ms", 1e3 * f.p95_s)
      .add("p99_ms", 1e3 * f.p99_s)
      .add("breakdown_ms", Joined()
                               .add("queue", 1e3 * f.queue_s)
                               .add("load", 1e3 * f.load_s)
                               .add("execution", 1e3 * f.execution_s)
                               .add("transfer", 1e3 * f.transfer_s)
                               .object())
      .add("makespan_s", f.makespan_s)
      .add("mig_time_s", f.mig_time_s)
      .add("gpu_time_s", f.gpu_time_s)
      .add("mig_held_s", f.mig_held_s)
      .add("gpu_held_s", f.gpu_held_s)
      .add("pipeline_pct", f.pipeline_pct)
      .add("starts", f.starts)
      .add("loads", f.loads)
      .add("unanswered", f.unanswered)
      .add("impossible", f.impossible)
      .object();
}

void print_row(const std::string& name, const Figures& f) {
  std::printf("  %-30s %8.1f %8.1f %7.3f %6.1f %9.0f %9.0f %8.0f %6.0f %6.0f %6.1f %6.0f %7.0f\n",
              name.c_str(), f.offered_per_s, f.throughput_per_s, f.share_of_bound(), f.hit_pct,
              1e3 * f.p50_s, 1e3 * f.p95_s, 1e3 * f.queue_s, 1e3 * f.load_s, 1e3 * f.execution_s,
              1e3 * f.transfer_s, f.pipeline_pct, f.unanswered);
  std::fflush(stdout);
}

void print_head(const char* title) {
  std::printf("\n%s\n  %-30s %8s %8s %7s %6s %9s %9s %8s %6s %6s %6s %6s %7s\n", title, "",
              "offered", "answers", "of", "SLO", "p50", "p95", "queue", "load", "exec", "trans",
              "pipe-", "unans-");
  std::printf("  %-30s %8s %8s %7s %6s %9s %9s %8s %6s %6s %6s %6s %7s\n", "", "/s", "/s", "bound",
              "%", "ms", "ms", "ms", "ms", "ms", "ms", "line %", "wered");
}

// Ours over a baseline at one point, seed by seed.
struct Ratio {
  std::vector<double> throughput, hit_gain, p95_reduction, mig, gpu;
};

void add(Ratio& ratio, const Figures& ours, const Figures& baseline) {
  ratio.throughput.push_back(ours.throughput_per_s / std::max(1e-9, baseline.throughput_per_s));
  ratio.hit_gain.push_back(ours.hit_pct - baseline.hit_pct);
  ratio.p95_reduction.push_back(100 * (1 - ours.p95_s / std::max(1e-9, baseline.p95_s)));
  ratio.mig.push_back(baseline.mig_time_s / std::max(1e-9, ours.mig_time_s));
  ratio.gpu.push_back(baseline.gpu_time_s / std::max(1e-9, ours.gpu_time_s));
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

std::string with_interval(const std::vector<double>& values) {
  return Joined().add("mean", mean(values)).add("half_width", half_width(values)).object();
}

struct Comparison {
  std::string json;            // by layout, load, baseline
  std::string cells;           // every point
  std::vector<double> shares;  // ours, saturated, of each layout and load
};

// What the paper says of a load on a layout, against ESG; empty where it says nothing.
std::string paper_says(const std::string& layout, Size size) {
  Joined paper;
  if (size == Size::kLarge) {
    paper.add("throughput_ratio", layout == "P1" ? 1.75 : layout == "P2" ? 1.78 : 1.70);
    if (layout == "P1") {
      paper.add("slo_hit_gain_pct", 61.0).add("p95_reduction_pct", 81.0);
      paper.add("mig_time", 0.97).add("gpu_time", 0.99);
    }
  } else if (layout == "P1") {
    const bool medium = size == Size::kMedium;
    paper.add("throughput_ratio", medium ? 1.25 : 1.0).add("slo_hit_gain_pct", medium ? 90.0 : 0.0);
    paper.add("p95_reduction_pct", medium ? 70.0 : 0.0);
    paper.add("mig_time", medium ? 0.99 : 0.96).add("gpu_time", medium ? 1.05 : 1.07);
  }
  return paper.object();
}

Comparison compare(const Plan& plan) {
  Comparison comparison;
  Joined by_layout, cells;
  for (const std::string& layout : plan.layouts) {
    Joined by_load;
    for (const Size size : plan.sizes) {
      std::map<std::string, std::map<std::string, std::vector<Figures>>> all;  // point, system
      Bounds bounds;
      for (uint64_t seed = 1; seed <= plan.seeds; ++seed) {
        for (const Point& point : kPoints) {
          const auto [setting, load, found] = prepare(plan, layout, size, point, seed);
          bounds = found;
          for (const System& system : systems()) {
            all[point.name][system.name].push_back(measure(system, setting, load));
          }
        }
      }
      char title[160];
      std::snprintf(title, sizeof(title), "%s, %s (%s): whole functions %.1f/s, pieces %.1f/s",
                    layout.c_str(), load_of(size), name_of(size), bounds.whole, bounds.cut);
      print_head(title);
      Joined baselines;
      for (const Point& point : kPoints) {
        for (const auto& [system, figures] : all[point.name]) {
          const Figures average = mean_of(figures);
          print_row(std::string(point.name) + " " + system, average);
          cells.add(Joined()
                        .add("layout", "\"" + layout + "\"")
                        .add("load", std::string("\"") + load_of(size) + "\"")
                        .add("point", std::string("\"") + point.name + "\"")
                        .add("system", "\"" + system + "\"")
                        .add("figures", json_of(average))
                        .object());
        }
      }
      const auto& saturated = all["saturated"][kOurs];
      std::vector<double> shares;
      for (const Figures& one : saturated) shares.push_back(one.share_of_bound());
      comparison.shares.push_back(mean(shares));
      for (const System& system : systems()) {
        if (system.name == kOurs) continue;
        std::map<std::string, Ratio> ratios;
        for (const Point& point : kPoints) {
          for (size_t i = 0; i < plan.seeds; ++i) {
            add(ratios[point.name], all[point.name][kOurs][i], all[point.name][system.name][i]);
          }
        }
        const Figures ours = mean_of(all["full"][kOurs]),
                      theirs = mean_of(all["full"][system.name]);
        baselines.add(
            system.name,
            Joined()
                .add("throughput_ratio", mean(ratios["saturated"].throughput))
                .add("throughput_ratio_half_width", half_width(ratios["saturated"].throughput))
                .add("bound", mean_of(saturated).bound_per_s)
                .add("share_of_bound", mean(shares))
                .add("baseline_share_of_bound",
                     mean_of(all["saturated"][system.name]).share_of_bound())
                .add("slo_hit_gain_pct", mean(ratios["full"].hit_gain))
                .add("slo_hit_gain_pct_half_width", half_width(ratios["full"].hit_gain))
                .add("p95_reduction_pct", mean(ratios["full"].p95_reduction))
                .add("mig_time", mean(ratios["full"].mig))
                .add("gpu_time", mean(ratios["full"].gpu))
                .add("at_trace_rate",
                     Joined()
                         .add("slo_hit_gain_pct", with_interval(ratios["trace"].hit_gain))
                         .add("p95_reduction_pct", with_interval(ratios["trace"].p95_reduction))
                         .add("mig_time", mean(ratios["trace"].mig))
                         .add("gpu_time", mean(ratios["trace"].gpu))
                         .object())
                .add("breakdown",
                     Joined().add("ours", json_of(ours)).add("baseline", json_of(theirs)).object())
                .add("simulator_error_pct", std::string("null"))
                .object());
        std::printf("  ours over %-20s throughput %.2f, SLO hits %+.1f points, p95 %+.0f %%\n",
                    system.name.c_str(), mean(ratios["saturated"].throughput),
                    mean(ratios["full"].hit_gain), -mean(ratios["full"].p95_reduction));
      }
      baselines.add("whole_bound_per_s", bounds.whole).add("cut_bound_per_s", bounds.cut);
      baselines.add("paper", paper_says(layout, size));
      by_load.add(load_of(size), baselines.object());
    }
    by_layout.add(layout, by_load.object());
  }
  comparison.json = by_layout.object();
  comparison.cells = cells.list();
  return comparison;
}

// Loads from a quarter of what whole functions can take to twice that.
std::string surface(const Plan& plan) {
  Joined rows;
  for (const Size size : plan.sizes) {
    print_head(
        (std::string("the surface, P1, ") + load_of(size) + ": times what whole functions can take")
            .c_str());
    for (const double factor : plan.factors) {
      const Point point{"surface", Point::Of::kWhole, factor};
      const auto [setting, load, bounds] = prepare(plan, "P1", size, point, 1);
      for (const System& system : systems()) {
        const Figures figures = measure(system, setting, load);
        char name[64];
        std::snprintf(name, sizeof(name), "x%g %s", factor, system.name.c_str());
        print_row(name, figures);
        rows.add(Joined()
                     .add("load", std::string("\"") + load_of(size) + "\"")
                     .add("times_whole_bound", factor)
                     .add("times_trace", bounds.times_trace)
                     .add("system", "\"" + system.name + "\"")
                     .add("figures", json_of(figures))
                     .object());
      }
    }
  }
  return rows.list();
}

std::string ablation(const Plan& plan) {
  Joined rows;
  for (const Size size : plan.sizes) {
    if (size == Size::kSmall && plan.quick) continue;
    for (const Point& point : kPoints) {
      if (std::strcmp(point.name, "trace") == 0) continue;
      print_head((std::string("ablations, P1, ") + load_of(size) + ", " + point.name).c_str());
      const auto [setting, load, bounds] = prepare(plan, "P1", size, point, 1);
      for (const System& system : ablations()) {
        const Figures figures = measure(system, setting, load);
        print_row(system.name, figures);
        rows.add(Joined()
                     .add("load", std::string("\"") + load_of(size) + "\"")
                     .add("point", std::string("\"") + point.name + "\"")
                     .add("variant", "\"" + system.name + "\"")
                     .add("figures", json_of(figures))
                     .object());
      }
    }
  }
  return rows.list();
}

// Throughput and hits of ours over ESG on P1 in the heavy load, with an input changed.
struct Effect {
  double throughput_ratio = 0, hit_gain = NAN, share = 0;
};
Effect effect(const Plan& plan, const Constants& constants) {
  Plan changed = plan;
  changed.constants = constants;
  changed.seconds_of_large = plan.quick ? 8 : 20;
  changed.warm_s = plan.quick ? 15 : 25;
  Effect effect;
  for (const Point& point : kPoints) {
    const bool saturated = std::strcmp(point.name, "saturated") == 0;
    if (!saturated && (plan.quick || std::strcmp(point.name, "full") != 0)) continue;
    auto [setting, load, bounds] = prepare(changed, "P1", Size::kLarge, point, 1);
    if (bounds.whole <= 0) return {NAN, NAN, NAN};
    setting.drain_s = 5;
    const Figures ours = measure(system_named(kOurs), setting, load);
    const Figures esg = measure(system_named("esg"), setting, load);
    if (saturated) {
      effect.throughput_ratio = ours.throughput_per_s / std::max(1e-9, esg.throughput_per_s);
      effect.share = ours.share_of_bound();
    } else {
      effect.hit_gain = ours.hit_pct - esg.hit_pct;
    }
  }
  return effect;
}

std::string json_of(const Effect& one) {
  return Joined()
      .add("throughput_ratio", one.throughput_ratio)
      .add("slo_hit_gain_pct", one.hit_gain)
      .add("share_of_bound", one.share)
      .object();
}

std::string sensitivity(const Plan& plan, std::string& as_it_is) {
  const Effect base = effect(plan, plan.constants);
  as_it_is = json_of(base);
  std::printf("\nours over esg, P1, heavy: throughput when saturated, halved, as it is, doubled\n");
  Joined rows;
  for (const Input& input : inputs()) {
    Effect changed[2];
    for (const int doubled : {0, 1}) {
      Constants constants = plan.constants;
      constants.*input.value =
          std::min(input.most, constants.*input.value * (doubled == 1 ? 2 : 0.5));
      changed[doubled] = effect(plan, constants);
    }
    bool moved = false;
    for (const Effect& one : changed) {
      moved = moved || !(std::abs(one.throughput_ratio / base.throughput_ratio - 1) <= 0.2);
    }
    const bool illustrative = moved && input.guess;
    std::printf("  %-26s %6.2f %6.2f %6.2f   %s%s\n", input.name, changed[0].throughput_ratio,
                base.throughput_ratio, changed[1].throughput_ratio, input.guess ? "guess" : "",
                illustrative ? ", illustrative" : "");
    std::fflush(stdout);
    rows.add(Joined()
                 .add("name", std::string("\"") + input.name + "\"")
                 .add("value", plan.constants.*input.value / input.unit)
                 .add("source", std::string("\"") + input.source + "\"")
                 .add("guess", std::string(input.guess ? "true" : "false"))
                 .add("halved", json_of(changed[0]))
                 .add("doubled", json_of(changed[1]))
                 .add("illustrative", std::string(illustrative ? "true" : "false"))
                 .object());
  }
  return rows.list();
}

int run(const Plan& plan, const char* out) {
  std::printf("%ssimulated: 2 nodes x 8 A100-80GB in MIG slices; arrivals: %s; %llu seeds\n",
              plan.quick ? "QUICK RUN; " : "",
              plan.traces.empty() ? "generated" : "Azure's, sampled",
              static_cast<unsigned long long>(plan.seeds));
  const Comparison comparison = compare(plan);
  const std::string points = surface(plan);
  const std::string variants = ablation(plan);
  std::string as_it_is;
  const std::string changed = sensitivity(plan, as_it_is);
  const double least = *std::ranges::min_element(comparison.shares);
  std::printf("\nshare of the bound, ours, saturated: least %.3f, mean %.3f (goal 0.85 in each)\n",
              least, mean(comparison.shares));
  const std::string json =
      Joined()
          .add("bench", std::string("\"paper-fluidfaas\""))
          .add("quick", std::string(plan.quick ? "true" : "false"))
          .add("simulated", std::string("true"))
          .add("arrivals", std::string(plan.traces.empty() ? "\"generated\"" : "\"azure\""))
          .add("seeds", static_cast<double>(plan.seeds))
          .add("share_of_bound", least)
          .add("simulator_error_pct", std::string("null"))
          .add("layouts", comparison.json)
          .add("surface", points)
          .add("ablations", variants)
          .add("inputs", changed)
          .add("inputs_as_they_are", as_it_is)
          .add("cells", comparison.cells)
          .object();
  std::printf("%s\n", json.c_str());
  if (out != nullptr && !(std::ofstream(out) << json << "\n")) {
    std::fprintf(stderr, "paper_fluidfaas_bench: %s cannot be written\n", out);
    return 1;
  }
  return 0;
}

int run_sweep(const std::string& name, bool quick) {
  if (name != "esg" && name != "infless" && name != kOurs) {
    std::fprintf(stderr, "paper_fluidfaas_bench: '%s' has no sweep; esg, infless and ours have\n",
                 name.c_str());
    return 2;
  }
  for (const Candidate& candidate : sweep(name, quick)) {
    std::printf("%.4f  SLO hits %5.1f %%, throughput %5.3f  %s\n", candidate.score,
                candidate.hit_pct, candidate.throughput_share, candidate.name.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace lambent::paper_fluidfaas

int main(int count, char** arguments) {
  using namespace lambent::paper_fluidfaas;
  bool quick = false;
  const char *out = nullptr, *swept = nullptr, *traces = nullptr;
  for (int i = 1; i < count; ++i) {
    const bool more = i + 1 < count;
    if (std::strcmp(arguments[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(arguments[i], "--out") == 0 && more) {
      out = arguments[++i];
    } else if (std::strcmp(arguments[i], "--traces") == 0 && more) {
      traces = arguments[++i];
    } else if (std::strcmp(arguments[i], "--sweep") == 0 && more) {
      swept = arguments[++i];
    } else {
      std::fprintf(stderr,
                   "usage: paper_fluidfaas_bench [--quick] [--out FILE] [--traces DIR] [--sweep "
                   "esg|infless|ours]\n");
      return 2;
    }
  }
  if (swept != nullptr) return run_sweep(swept, quick);
  const auto plan = plan_for(quick, traces == nullptr ? "" : traces);
  if (!plan.ok()) {
    std::fprintf(stderr, "paper_fluidfaas_bench: %s\n", plan.error().message.c_str());
    return 1;
  }
  return run(*plan, out);
}
