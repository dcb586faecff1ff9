// paper_fluidfaas_bench [--quick] [--out FILE] [--traces DIR] [--seed N] [--only SYSTEM]
// [--sweep SYSTEM [--scene SCENE]]:
// FluidFaaS's comparison in a model of its two nodes: four applications in three sizes on three MIG
// layouts, under ESG, INFless, FluidFaaS as published, and ours, each by its production policy.
// Prints tables and, as its last line, one JSON object. All of it is simulated.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "bench/json.h"
#include "bench/paper_fluidfaas/experiments.h"
#include "bench/paper_fluidfaas/metrics.h"
#include "bench/paper_fluidfaas/plan.h"
#include "bench/paper_fluidfaas/sensitivity.h"
#include "sim/workload/csv.h"

namespace lambent::paper_fluidfaas {

using bench::Joined;
using bench::number;
using bench::write_last_line;

namespace {

std::string json_of(const Figures& f) {
  Joined hits;
  for (const double hit : f.hit_pct_by_application) hits.add(number(hit));
  return Joined()
      .add("offered_per_s", f.offered_per_s)
      .add("throughput_per_s", f.throughput_per_s)
      .add("bound_per_s", f.bound_per_s)
      .add("share_of_bound", f.share_of_bound())
      .add("share_of_placed", f.share_of_placed())
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
      .add("slices_pct", Joined()
                             .add("working", f.working_pct)
                             .add("coming", f.coming_pct)
                             .add("waiting", f.waiting_pct)
                             .add("free", f.free_pct)
                             .object())
      .add("pipeline_pct", f.pipeline_pct)
      .add("starts", f.starts)
      .add("loads", f.loads)
      .add("copied_gb", f.copied_gb)
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

// Half the widths of their 95 % confidence intervals.
std::string intervals_of(const std::vector<Figures>& figures) {
  std::vector<double> hits, p95s, answers;
  for (const Figures& one : figures) {
    hits.push_back(one.hit_pct);
    p95s.push_back(1e3 * one.p95_s);
    answers.push_back(one.throughput_per_s);
  }
  return Joined()
      .add("slo_hit_pct", half_width(hits))
      .add("p95_ms", half_width(p95s))
      .add("throughput_per_s", half_width(answers))
      .object();
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
      Measured all;
      std::vector<double> whole, cut, placed, replicated;
      for (uint64_t seed = 1; seed <= plan.seeds; ++seed) {
        for (const Point& point : kPoints) {
          const auto [setting, load, found] = prepare(plan, layout, size, point, seed);
          if (std::strcmp(point.name, "trace") == 0) {
            whole.push_back(found.whole);
            cut.push_back(found.cut);
            placed.push_back(found.placed);
            replicated.push_back(found.replicated);
          }
          for (const System& system : systems(scene_of(size))) {
            all[point.name][system.name].push_back(measure(system, setting, load));
          }
        }
      }
      char title[160];
      std::snprintf(
          title, sizeof(title),
          "%s, %s (%s): whole functions %.1f/s, placed %.1f, with replicas %.1f, pieces %.1f",
          layout.c_str(), load_of(size), name_of(size), mean(whole), mean(placed), mean(replicated),
          mean(cut));
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
                        .add("intervals", intervals_of(figures))
                        .object());
        }
      }
      const auto& saturated = all["saturated"][kOurs];
      std::vector<double> shares;
      for (const Figures& one : saturated) shares.push_back(one.share_of_bound());
      comparison.shares.push_back(mean(shares));
      for (const System& system : systems(scene_of(size))) {
        if (system.name == kOurs) continue;
        std::map<std::string, Joined> by_point;
        std::map<std::string, std::vector<double>> value;  // by point and name
        for (const Metric& metric : metrics()) {
          const auto values = values_of(metric, all, system.name);
          value[metric.point + " " + metric.name] = values;
          by_point[metric.point].add(metric.name, with_interval(values));
        }
        const Figures ours = mean_of(all["full"][kOurs]),
                      theirs = mean_of(all["full"][system.name]);
        baselines.add(
            system.name,
            Joined()
                .add("throughput_ratio", mean(value["saturated throughput_ratio"]))
                .add("bound", mean_of(saturated).bound_per_s)
                .add("share_of_bound", mean(shares))
                .add("baseline_share_of_bound",
                     mean_of(all["saturated"][system.name]).share_of_bound())
                .add("slo_hit_gain_pct", mean(value["full slo_hit_gain_pct"]))
                .add("p95_reduction_pct", mean(value["full p95_reduction_pct"]))
                .add("mig_time", mean(value["full mig_time"]))
                .add("gpu_time", mean(value["full gpu_time"]))
                .add("saturated", by_point["saturated"].object())
                .add("full", by_point["full"].object())
                .add("trace", by_point["trace"].object())
                .add("breakdown",
                     Joined().add("ours", json_of(ours)).add("baseline", json_of(theirs)).object())
                .add("simulator_error_pct", std::string("null"))
                .object());
        std::printf("  ours over %-20s throughput %.2f, SLO hits %+.1f points, p95 %+.0f %%\n",
                    system.name.c_str(), mean(value["saturated throughput_ratio"]),
                    mean(value["full slo_hit_gain_pct"]), -mean(value["full p95_reduction_pct"]));
      }
      baselines.add("whole_bound_per_s", mean(whole)).add("cut_bound_per_s", mean(cut));
      baselines.add("placed_bound_per_s", mean(placed));
      baselines.add("replicated_bound_per_s", mean(replicated));
      baselines.add("paper", paper_says(layout, size));
      by_load.add(load_of(size), baselines.object());
    }
    by_layout.add(layout, by_load.object());
  }
  comparison.json = by_layout.object();
  comparison.cells = cells.list();
  return comparison;
}

// One system by itself at the comparison's points: the mean of all seeds, and of its shares of the
// bound each.
void alone(const Plan& plan, const std::string& name) {
  for (const std::string& layout : plan.layouts) {
    for (const Size size : plan.sizes) {
      print_head((layout + ", " + load_of(size) + " (" + name_of(size) + ")").c_str());
      for (const Point& point : kPoints) {
        std::vector<Figures> figures;
        std::string shares;
        for (uint64_t seed = 1; seed <= plan.seeds; ++seed) {
          const Prepared prepared = prepare(plan, layout, size, point, seed);
          const System system = system_named(name, scene_of(size));
          figures.push_back(measure(system, prepared.setting, prepared.load));
          char share[64];
          std::snprintf(share, sizeof(share), " %.3f of %.1f", figures.back().share_of_bound(),
                        prepared.bounds.cut);
          shares += share;
        }
        const Figures average = mean_of(figures);
        print_row(std::string(point.name) + " " + name, average);
        std::printf(
            "    shares:%s; slices: at work %.1f, coming %.1f, waiting %.1f, free %.1f %%\n",
            shares.c_str(), average.working_pct, average.coming_pct, average.waiting_pct,
            average.free_pct);
      }
    }
  }
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
      for (const System& system : systems(scene_of(size))) {
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
      for (const System& system : ablations(scene_of(size))) {
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

// More functions than slices: who has no slice has to wait for one, or take turns.
std::string crowded(const Plan& plan) {
  Joined rows;
  CrowdedPlan crowd;
  if (plan.quick) crowd = {120, {120}};
  std::vector<System> all = ablations(Scene::kCrowded);
  std::erase_if(all, [](const System& system) {
    return system.name.find("pipelines") != std::string::npos ||
           system.name.find("rank") != std::string::npos;
  });
  for (const double gap_s : crowd.gaps_s) {
    char title[160];
    std::snprintf(title, sizeof(title), "24 functions on 6 slices, each visited every %g s", gap_s);
    print_head(title);
    for (const System& system : all) {
      std::vector<Figures> figures;
      for (uint64_t seed = 1; seed <= plan.seeds; ++seed) {
        const Load load = visits(CrowdedPlan::kFunctions, gap_s, crowd.length_s, seed);
        figures.push_back(measure(system, crowded_setting(plan, seed), load));
      }
      print_row(system.name, mean_of(figures));
      rows.add(Joined()
                   .add("gap_s", gap_s)
                   .add("system", "\"" + system.name + "\"")
                   .add("figures", json_of(mean_of(figures)))
                   .add("intervals", intervals_of(figures))
                   .object());
    }
  }
  return rows.list();
}

int run(const Plan& plan, bool comparison_alone, uint64_t drawn_by, const char* out) {
  std::printf("%ssimulated: 2 nodes x 8 A100-80GB in MIG slices; arrivals: %s; %llu seeds\n",
              plan.quick ? "QUICK RUN; " : "",
              plan.traces.empty() ? "generated" : "Azure's, sampled",
              static_cast<unsigned long long>(plan.seeds));
  const Comparison comparison = compare(plan);
  std::string points = "null", variants = "null", crowd = "null";
  Sensitivity inputs{"null", "null"};
  if (!comparison_alone) {
    points = surface(plan);
    variants = ablation(plan);
    crowd = crowded(plan);
    inputs = sensitivity_of(plan);
  }
  const double least = *std::ranges::min_element(comparison.shares);
  std::printf("\nshare of the bound, ours, saturated: least %.3f, mean %.3f (goal 0.85 in each)\n",
              least, mean(comparison.shares));
  const std::string json =
      Joined()
          .add("bench", std::string("\"paper-fluidfaas\""))
          .add("quick", std::string(plan.quick ? "true" : "false"))
          .add("simulated", std::string("true"))
          .add("arrivals", std::string(plan.traces.empty() ? "\"generated\"" : "\"azure\""))
          .add("seed", static_cast<double>(drawn_by))
          .add("seeds", static_cast<double>(plan.seeds))
          .add("share_of_bound", least)
          .add("simulator_error_pct", std::string("null"))
          .add("layouts", comparison.json)
          .add("surface", points)
          .add("ablations", variants)
          .add("crowded", crowd)
          .add("verdicts", inputs.verdicts)
          .add("inputs", inputs.rows)
          .add("most_queued", 1e6)
          .add("cells", comparison.cells)
          .object();
  return write_last_line(json, out);
}

bool is_system(const std::string& name) {
  return std::ranges::any_of(systems(Scene::kLight),
                             [&](const System& system) { return system.name == name; });
}

bool is_load(const std::string& name) {
  return std::ranges::any_of(kSizes, [&](Size size) { return load_of(size) == name; });
}

int run_sweep(const std::string& name, const std::string& only, bool quick) {
  if (!is_system(name)) {
    std::fprintf(stderr, "paper_fluidfaas_bench: '%s' has no sweep; %s\n", name.c_str(),
                 "esg, infless, fluidfaas and ours have");
    return 2;
  }
  bool any = false;
  for (const Scene scene : {Scene::kLight, Scene::kMedium, Scene::kHeavy, Scene::kCrowded}) {
    any = any || only.empty() || only == name_of(scene);
    if (!only.empty() && only != name_of(scene)) continue;
    for (const Candidate& candidate : sweep(name, scene, quick)) {
      std::printf("%s  %.4f  SLO hits %5.1f %%, answers %5.3f of what can be  %s\n", name_of(scene),
                  candidate.score, candidate.hit_pct, candidate.throughput_share,
                  candidate.name.c_str());
    }
    std::fflush(stdout);
  }
  if (!any) std::fprintf(stderr, "paper_fluidfaas_bench: no scene '%s'\n", only.c_str());
  return any ? 0 : 2;
}

}  // namespace
}  // namespace lambent::paper_fluidfaas

int main(int count, char** arguments) {
  using namespace lambent::paper_fluidfaas;
  bool quick = false, comparison_alone = false;
  uint64_t seed = 0;
  std::string layout, system, load;
  const char *out = nullptr, *swept = nullptr, *traces = nullptr, *scene = "";
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
    } else if (std::strcmp(arguments[i], "--scene") == 0 && more) {
      scene = arguments[++i];
    } else if (std::strcmp(arguments[i], "--seed") == 0 && more &&
               lambent::workload::whole_number_of(arguments[i + 1])) {
      seed = *lambent::workload::whole_number_of(arguments[++i]);
    } else if (std::strcmp(arguments[i], "--only") == 0 && more &&
               std::strcmp(arguments[i + 1], "comparison") == 0) {
      comparison_alone = true;
      ++i;
    } else if (std::strcmp(arguments[i], "--only") == 0 && more && is_system(arguments[i + 1])) {
      system = arguments[++i];
    } else if (std::strcmp(arguments[i], "--layout") == 0 && more) {
      layout = arguments[++i];
    } else if (std::strcmp(arguments[i], "--load") == 0 && more && is_load(arguments[i + 1])) {
      load = arguments[++i];
    } else {
      std::fprintf(stderr,
                   "usage: paper_fluidfaas_bench [--quick] [--out FILE] [--traces DIR] [--seed N] "
                   "[--only comparison|esg|infless|fluidfaas|ours] [--layout P1|P2|Hybrid] "
                   "[--load light|medium|heavy] [--sweep esg|infless|fluidfaas|ours "
                   "[--scene light|medium|heavy|crowded]]\n");
      return 2;
    }
  }
  if (swept != nullptr) return run_sweep(swept, scene, quick);
  auto plan = plan_for(quick, traces == nullptr ? "" : traces);
  if (!plan.ok()) {
    std::fprintf(stderr, "paper_fluidfaas_bench: %s\n", plan.error().message.c_str());
    return 1;
  }
  if (!layout.empty()) {
    const std::vector<std::string> known = plan_for(false, "").value().layouts;
    if (std::ranges::find(known, layout) == known.end()) {
      std::fprintf(stderr, "paper_fluidfaas_bench: no layout '%s'; P1, P2 and Hybrid are\n",
                   layout.c_str());
      return 2;
    }
    plan->layouts = {layout};
  }
  // Without traces, arrivals by another seed; each of the plan's own has a part of them.
  for (const Size size : plan->sizes) {
    if (seed != 0 && traces == nullptr) plan->loads[size] = generated_load(size, seed);
  }
  if (!load.empty()) std::erase_if(plan->sizes, [&](Size size) { return load_of(size) != load; });
  if (!system.empty()) {
    alone(*plan, system);
    return 0;
  }
  return run(*plan, comparison_alone, seed, out);
}
