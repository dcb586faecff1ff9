// paper_mqfq_bench [--quick] [--out FILE] [--traces DIR] [--plots DIR] [--sweep]: the whole
// evaluation of the MQFQ-Sticky paper in our simulator, its own policy and its baselines beside
// ours: Table 3, the surface over D, pool and T, Figures 4 and 6 to 9, Table 4. Prints tables and,
// as its last line, one JSON object. All of it is simulated.
#include <cstdio>
#include <cstring>
#include <fstream>

#include "bench/json.h"
#include "bench/paper_mqfq/families.h"
#include "bench/paper_mqfq/figures.h"
#include "bench/paper_mqfq/sensitivity.h"
#include "bench/paper_mqfq/surface.h"
#include "bench/paper_mqfq/sweep.h"
#include "bench/paper_mqfq/table3.h"
#include "bench/paper_mqfq/table4.h"

namespace lambent::paper_mqfq {

using bench::Joined;
using bench::quoted;
using bench::truth;

namespace {

int fail(const std::string& message) {
  std::fprintf(stderr, "paper_mqfq_bench: %s\n", message.c_str());
  return 1;
}

// "met", "MISSED", or "illustrative", for what a guess moves by more than a fifth meets no goal.
std::string verdict_of(const Goal& goal) {
  if (!goal.met) return "MISSED";
  return goal.moved_by.empty() ? "met" : "illustrative";
}

std::string json_of(const Goals& goals) {
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
                verdict_of(goal).c_str(), decided_by.c_str());
    rows.add(Joined()
                 .add("goal", quoted(goal.name))
                 .add("wanted", quoted(goal.wanted))
                 .add("is", goal.value)
                 .add("met", truth(goal.met && goal.moved_by.empty()))
                 .add("verdict", quoted(verdict_of(goal)))
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

int run(const Plan& plan, bool sweeps, const char* out) {
  const auto catalogue =
      workload::open_catalogue(std::string(LAMBENT_SHARE_DIR) + "/catalogue/mqfq_table1.csv");
  if (!catalogue.ok()) return fail(catalogue.error().message);
  auto workloads = open_workloads(*catalogue, {.traces = plan.traces, .quick = plan.quick});
  if (!workloads.ok()) return fail(workloads.error().message);
  Bench bench{.plan = plan,
              .workloads = std::move(*workloads),
              .best = {},
              .runs = Runs(plan.seeds),
              .wide_runs = Runs(plan.wide_seeds),
              .goals = {}};
  if (sweeps) {
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
  const std::string table = table3(bench);
  const std::string points = surface(bench);
  Joined pictures;
  pictures.add("figure4", figure4(bench)).add("figure6", figure6(bench));
  pictures.add("figure7", figure7(bench)).add("figure8", figure8(bench));
  pictures.add("figure9a", figure9a(bench)).add("figure9bc", figure9bc(bench));
  const std::string both = table4(bench);
  const std::string decided = sensitivity(bench);
  const std::string goals = json_of(bench.goals);
  const std::string json =
      Joined()
          .add("bench", quoted("paper-mqfq"))
          .add("quick", truth(plan.quick))
          .add("simulated", truth(true))
          .add("arrivals", quoted(plan.traces.empty() ? "generated" : "traces"))
          .add("seeds", static_cast<double>(plan.seeds))
          .add("site", quoted(name_of(plan.site)))
          .add("goals", goals)
          .add("table3", table)
          .add("surface", points)
          .add("figures", pictures.object())
          .add("table4", both)
          .add("sensitivity", decided)
          .add("mappings", json_of_mappings())
          .add("runs", static_cast<double>(bench.runs.count() + bench.wide_runs.count()))
          .object();
  std::printf("%s\n", json.c_str());
  if (out != nullptr && !(std::ofstream(out) << json << "\n")) {
    return fail(std::string(out) + " cannot be written");
  }
  return 0;
}

}  // namespace
}  // namespace lambent::paper_mqfq

int main(int count, char** arguments) {
  lambent::paper_mqfq::Plan plan;
  const char* out = nullptr;
  bool sweeps = false;
  for (int i = 1; i < count; ++i) {
    const bool more = i + 1 < count;
    if (std::strcmp(arguments[i], "--quick") == 0) {
      plan.quick = true;
      plan.seeds = 2;
      plan.wide_seeds = 1;
    } else if (std::strcmp(arguments[i], "--out") == 0 && more) {
      out = arguments[++i];
    } else if (std::strcmp(arguments[i], "--traces") == 0 && more) {
      plan.traces = arguments[++i];
    } else if (std::strcmp(arguments[i], "--plots") == 0 && more) {
      plan.plots = arguments[++i];
    } else if (std::strcmp(arguments[i], "--sweep") == 0) {
      sweeps = true;
    } else {
      std::fprintf(stderr,
                   "usage: paper_mqfq_bench [--quick] [--out FILE] [--traces DIR] [--plots DIR] "
                   "[--sweep]\n");
      return 2;
    }
  }
  return lambent::paper_mqfq::run(plan, sweeps, out);
}
