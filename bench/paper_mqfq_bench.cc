// paper_mqfq_bench [--quick] [--out FILE] [--traces DIR] [--plots DIR] [--seed N]
// [--only PART]... [--sweep] [--write-traces DIR]: the whole evaluation of the MQFQ-Sticky paper in
// our simulator, its own policy and its baselines beside ours: Table 3, all of them over
// contention, the surface over D, pool and T, Figures 4 and 6 to 9, Table 4. Prints tables and, as
// its last line, one JSON object. All of it is simulated.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

#include "bench/json.h"
#include "bench/paper_mqfq/contention.h"
#include "bench/paper_mqfq/families.h"
#include "bench/paper_mqfq/figures.h"
#include "bench/paper_mqfq/foreseen.h"
#include "bench/paper_mqfq/options.h"
#include "bench/paper_mqfq/own_traces.h"
#include "bench/paper_mqfq/phases.h"
#include "bench/paper_mqfq/sensitivity.h"
#include "bench/paper_mqfq/surface.h"
#include "bench/paper_mqfq/sweep.h"
#include "bench/paper_mqfq/table3.h"
#include "bench/paper_mqfq/table4.h"
#include "bench/paper_mqfq/unseen.h"
#include "sim/workload/csv.h"

namespace lambent::paper_mqfq {

using bench::Joined;
using bench::quoted;
using bench::truth;
using bench::write_last_line;

namespace {

int fail(const std::string& message) {
  std::fprintf(stderr, "paper_mqfq_bench: %s\n", message.c_str());
  return 1;
}

// "met", "MISSED", or "illustrative", for what a guess moves by more than a fifth meets no goal;
// "untried" where no guess was moved.
std::string verdict_of(const Goal& goal, bool guesses_tried) {
  if (!goal.met) return "MISSED";
  if (!guesses_tried) return "untried";
  return goal.moved_by.empty() ? "met" : "illustrative";
}

std::string json_of(const Goals& goals, bool guesses_tried) {
  Joined rows;
  std::printf("\n%-78s %14s %9s  %-12s  decided by\n", "goal", "wanted", "is", "verdict");
  for (const Goal& goal : goals) {
    std::string decided_by = goal.decided_by;
    Joined moved_by;
    for (const std::string& name : goal.moved_by) {
      moved_by.add(quoted(name));
      decided_by += (name == goal.moved_by.front() ? "; moved by " : ", ") + name;
    }
    std::printf("%-78s %14s %9.3f  %-12s  %s\n", goal.name.c_str(), goal.wanted.c_str(), goal.value,
                verdict_of(goal, guesses_tried).c_str(), decided_by.c_str());
    rows.add(Joined()
                 .add("goal", quoted(goal.name))
                 .add("wanted", quoted(goal.wanted))
                 .add("is", goal.value)
                 .add("met", truth(verdict_of(goal, guesses_tried) == "met"))
                 .add("verdict", quoted(verdict_of(goal, guesses_tried)))
                 .add("decided_by", quoted(goal.decided_by))
                 .add("moved_by", moved_by.list())
                 .object());
  }
  return rows.list();
}

std::string json_of_mappings() {
  Joined all;
  for (const auto& [family, how] : mappings()) all.add(family, quoted(how));
  return all.object();
}

constexpr const char* kParts[] = {"table3", "contention", "foreseen", "phases", "options",
                                  "unseen", "surface",    "figures",  "table4", "sensitivity"};

// What main() read beside the plan.
struct Chosen {
  bool sweeps = false;
  std::set<std::string> parts;  // of kParts; none: all
  uint64_t seed = 0;            // other than 0: inputs on which nothing was chosen
  const char* out = nullptr;
  const char* write_traces = nullptr;  // the folder for them; then nothing is run

  bool has(const char* part) const { return parts.empty() || parts.contains(part); }
};

// Traces that somebody brought, and, with a seed, five more of the generator; then nothing was
// chosen on any of the nine either.
Result<void> add_fresh(Workloads& workloads, const workload::Catalogue& catalogue,
                       const std::string& traces, uint64_t seed) {
  if (!traces.empty()) {
    ASSIGN_OR_RETURN(auto own, open_own_traces(traces, catalogue));
    for (Workload& one : own) workloads.others.push_back(std::move(one));
  }
  if (seed == 0) return {};
  for (Workload& one : workloads.nine) one.use = Use::kJudged;
  const double loads[] = {0.5, 0.6, 0.7, 0.8, 0.9};
  for (uint64_t i = 0; i < std::size(loads); ++i) {
    const std::string name =
        "generator-" + std::to_string(seed + i) + "-" + bench::number(loads[i]);
    workloads.others.push_back(generated(catalogue, name, loads[i], seed + i));
  }
  return {};
}

int run(const Plan& plan, const Chosen& chosen) {
  const auto catalogue =
      workload::open_catalogue(std::string(LAMBENT_SHARE_DIR) + "/catalogue/mqfq_table1.csv");
  if (!catalogue.ok()) return fail(catalogue.error().message);
  auto workloads = open_workloads(*catalogue, {.traces = plan.traces, .quick = plan.quick});
  if (!workloads.ok()) return fail(workloads.error().message);
  const auto added = add_fresh(*workloads, *catalogue, plan.traces, chosen.seed);
  if (!added.ok()) return fail(added.error().message);
  if (chosen.write_traces != nullptr) {
    const auto written = write_traces(*workloads, chosen.write_traces);
    return written.ok() ? 0 : fail(written.error().message);
  }
  if (chosen.sweeps && chosen.seed != 0) {
    // What would be best on those inputs themselves: no setting is taken from that.
    workloads->drawn.clear();
    for (auto* family : {&workloads->nine, &workloads->others}) {
      for (Workload& one : *family) one.use = Use::kTraining;
    }
  }
  Bench bench{.plan = plan,
              .workloads = std::move(*workloads),
              .best = {},
              .runs = Runs(plan.seeds),
              .wide_runs = Runs(plan.wide_seeds),
              .goals = {}};
  if (chosen.sweeps) {
    std::printf("%s", sweep_of_all(bench).c_str());
    return 0;
  }
  auto best = open_best(LAMBENT_MQFQ_SETTINGS);
  if (!best.ok()) return fail(best.error().message);
  bench.best = std::move(*best);
  std::printf("%ssimulated: V100-16GB, Table 1 of the paper, %s; arrivals: %s; %llu seeds\n",
              plan.quick ? "QUICK RUN; " : "", name_of(plan.site).c_str(),
              plan.traces.empty() ? "generated, so that no row is the paper's" : "the traces'",
              static_cast<unsigned long long>(plan.seeds));
  const auto part = [&](const char* name, const auto& measure) {
    return chosen.has(name) ? measure() : std::string("null");
  };
  const std::string table = part("table3", [&] { return table3(bench); });
  const std::string over = part("contention", [&] { return over_contention(bench); });
  std::string foreseen = "null";
  if (chosen.has("foreseen")) {
    auto days = open_days(plan.traces, *catalogue, plan.quick);
    if (!days.ok()) return fail(days.error().message);
    foreseen = over_foresight(bench, *days);
  }
  const std::string phases = part("phases", [&] { return over_phases(bench); });
  const std::string options = part("options", [&] { return over_options(bench); });
  const std::string unseen =
      part("unseen", [&] { return over_unseen(plan, *catalogue, chosen.seed); });
  const std::string points = part("surface", [&] { return surface(bench); });
  const std::string all_figures = part("figures", [&] {
    Joined pictures;
    pictures.add("figure4", figure4(bench)).add("figure6", figure6(bench));
    pictures.add("figure7", figure7(bench)).add("figure8", figure8(bench));
    pictures.add("figure9a", figure9a(bench)).add("figure9bc", figure9bc(bench));
    return pictures.object();
  });
  const std::string both = part("table4", [&] { return table4(bench); });
  const std::string decided = part("sensitivity", [&] { return sensitivity(bench); });
  const std::string goals = json_of(bench.goals, chosen.has("sensitivity"));
  const std::string json =
      Joined()
          .add("bench", quoted("paper-mqfq"))
          .add("quick", truth(plan.quick))
          .add("simulated", truth(true))
          .add("arrivals", quoted(plan.traces.empty() ? "generated" : "traces"))
          .add("seed", static_cast<double>(chosen.seed))
          .add("seeds", static_cast<double>(plan.seeds))
          .add("site", quoted(name_of(plan.site)))
          .add("ours", quoted(kShipped))
          .add("goals", goals)
          .add("table3", table)
          .add("contention", over)
          .add("foreseen", foreseen)
          .add("phases", phases)
          .add("options", options)
          .add("unseen", unseen)
          .add("surface", points)
          .add("figures", all_figures)
          .add("table4", both)
          .add("sensitivity", decided)
          .add("mappings", json_of_mappings())
          .add("runs", static_cast<double>(bench.runs.count() + bench.wide_runs.count()))
          .object();
  return write_last_line(json, chosen.out);
}

}  // namespace
}  // namespace lambent::paper_mqfq

int main(int count, char** arguments) {
  lambent::paper_mqfq::Plan plan;
  lambent::paper_mqfq::Chosen chosen;
  for (int i = 1; i < count; ++i) {
    const bool more = i + 1 < count;
    if (std::strcmp(arguments[i], "--quick") == 0) {
      plan.quick = true;
      plan.seeds = 2;
      plan.wide_seeds = 1;
    } else if (std::strcmp(arguments[i], "--out") == 0 && more) {
      chosen.out = arguments[++i];
    } else if (std::strcmp(arguments[i], "--traces") == 0 && more) {
      plan.traces = arguments[++i];
    } else if (std::strcmp(arguments[i], "--plots") == 0 && more) {
      plan.plots = arguments[++i];
    } else if (std::strcmp(arguments[i], "--write-traces") == 0 && more) {
      chosen.write_traces = arguments[++i];
    } else if (std::strcmp(arguments[i], "--sweep") == 0) {
      chosen.sweeps = true;
    } else if (std::strcmp(arguments[i], "--only") == 0 && more &&
               std::ranges::find(lambent::paper_mqfq::kParts, std::string(arguments[i + 1])) !=
                   std::end(lambent::paper_mqfq::kParts)) {
      chosen.parts.insert(arguments[++i]);
    } else if (std::strcmp(arguments[i], "--seed") == 0 && more &&
               lambent::workload::whole_number_of(arguments[i + 1])) {
      chosen.seed = *lambent::workload::whole_number_of(arguments[++i]);
    } else {
      std::fprintf(stderr,
                   "usage: paper_mqfq_bench [--quick] [--out FILE] [--traces DIR] [--plots DIR] "
                   "[--seed N] [--only PART]... [--sweep] [--write-traces DIR]\n"
                   "parts: table3, contention, foreseen, phases, options, unseen, surface, "
                   "figures, table4, sensitivity\n");
      return 2;
    }
  }
  return lambent::paper_mqfq::run(plan, chosen);
}
