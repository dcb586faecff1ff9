#include "bench/paper_mqfq/unseen.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "bench/json.h"
#include "core/base/check.h"
#include "sim/simulator/simulation.h"
#include "sim/simulator/workload_run.h"
#include "sim/workload/statistics.h"

namespace lambent::paper_mqfq {

using bench::Joined;

namespace {

// What ships, and what it is judged against, each with its pool: what was published and three
// orders more, with one sandbox a function and with second ones (Batch has none); what shipped
// before, and what ships with another rule of eviction.
struct Other {
  const char* name;
  bool is_published = false;
  bool has_second = false;
  bool is_ours = false;
};
constexpr Other kOthers[] = {{.name = "mqfq-pool", .is_published = true},
                             {.name = "fcfs-pool", .is_published = true},
                             {.name = "batch-pool", .is_published = true},
                             {.name = "sjf-pool"},
                             {.name = "sjf-set-up-pool"},
                             {.name = "eevdf-pool"},
                             {.name = "mqfq-pool-second", .is_published = true, .has_second = true},
                             {.name = "fcfs-pool-second", .is_published = true, .has_second = true},
                             {.name = "sjf-pool-second", .has_second = true},
                             {.name = "sjf-set-up-pool-second", .has_second = true},
                             {.name = "eevdf-pool-second", .has_second = true},
                             {.name = "ours-unweighed", .is_ours = true},
                             {.name = "ours-no-returns", .is_ours = true},
                             {.name = "ours-worth", .is_ours = true}};
constexpr size_t kCount = std::size(kOthers);
// The best of some, cell by cell.
struct Best {
  const char* name;
  bool (*has)(const Other& other);
};
constexpr Best kBests[] = {
    {"best", [](const Other& other) { return !other.has_second && !other.is_ours; }},
    {"best published", [](const Other& other) { return other.is_published; }},
    {"best of all", [](const Other& other) { return !other.is_ours; }},
};
constexpr size_t kColumns = kCount + std::size(kBests);
const char* name_of_column(size_t column) {
  return column < kCount ? kOthers[column].name : kBests[column - kCount].name;
}
constexpr unsigned kSeeds = 6, kSites = 4;
// What counts as worse.
constexpr double kWorse = 1.02;

// What came of the invocations, in figures.
UnseenFigures figures_of(const workload::Summary& summary) {
  CHECK(summary.count > 0, "a workload has invocations");
  UnseenFigures figures{.mean_s = summary.mean_s,
                        .p50_s = summary.p50_s,
                        .p99_s = summary.p99_s,
                        .cold = summary.cold_ratio,
                        .invocations = summary.count + summary.failed,
                        .failed = summary.failed};
  for (const workload::FunctionSummary& function : summary.functions) {
    if (function.count == 0) continue;
    figures.worst_slowdown = std::max(figures.worst_slowdown, function.mean_s / function.warm_s);
  }
  return figures;
}

struct Cell {
  std::string name;
  std::string family;
  UnseenSite site;
  UnseenFigures ours;
  std::vector<UnseenFigures> others;  // of kOthers
};

struct Measure {
  const char* name;
  double UnseenFigures::*of;
};
constexpr Measure kMeasures[] = {{"mean", &UnseenFigures::mean_s},
                                 {"p99", &UnseenFigures::p99_s},
                                 {"worst function", &UnseenFigures::worst_slowdown}};

// Ratios of the default to others in cells.
struct Ratios {
  size_t cells = 0, worse = 0;
  double logarithms = 0, most = 0;
  std::string worst;  // the cell
  void add(double ratio, const std::string& cell) {
    ++cells;
    if (ratio > kWorse) ++worse;
    logarithms += std::log(ratio);
    if (ratio <= most) return;
    most = ratio;
    worst = cell;
  }
  double mean() const {
    return std::exp(logarithms / static_cast<double>(std::max<size_t>(cells, 1)));
  }
};
// By measure: over each of kOthers, and over the best of kBests.
using Row = std::vector<std::vector<Ratios>>;

double least_of(const Cell& cell, const Best& best, double UnseenFigures::*of) {
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < kCount; ++i) {
    if (best.has(kOthers[i])) least = std::min(least, cell.others[i].*of);
  }
  return least;
}

void add(Row& row, const Cell& cell) {
  row.resize(std::size(kMeasures));
  for (size_t m = 0; m < row.size(); ++m) {
    row[m].resize(kColumns);
    const auto of = kMeasures[m].of;
    for (size_t i = 0; i < kColumns; ++i) {
      const double other = i < kCount ? cell.others[i].*of : least_of(cell, kBests[i - kCount], of);
      row[m][i].add(cell.ours.*of / other, cell.name);
    }
  }
}

std::string name_of(const UnseenWorkload& workload, const UnseenSite& site) {
  return workload.base.name + " @ " + paper_mqfq::name_of(site.site) + ", slow-down " +
         bench::number(site.slowdown);
}

std::string report(const std::string& key, const Row& row) {
  for (size_t i = 0; i < kColumns; ++i) {
    std::printf("%-24s %-24s", i == 0 ? key.c_str() : "", name_of_column(i));
    for (const std::vector<Ratios>& over : row) {
      std::printf(" %5.2f (%3zu; %5.2f)", over[i].mean(), over[i].worse, over[i].most);
    }
    std::printf("\n");
  }
  Joined all;
  for (size_t m = 0; m < row.size(); ++m) {
    Joined of_measure;
    for (size_t i = 0; i < kColumns; ++i) {
      const Ratios& ratios = row[m][i];
      of_measure.add(name_of_column(i), Joined()
                                            .add("mean", ratios.mean())
                                            .add("worse", static_cast<double>(ratios.worse))
                                            .add("most", ratios.most)
                                            .add("worst", bench::quoted(ratios.worst))
                                            .object());
    }
    all.add(kMeasures[m].name, of_measure.object());
  }
  return all.add("cells", static_cast<double>(row.front().front().cells)).object();
}

void print_worst(std::vector<Cell>& cells) {
  const auto over_best = [](const Cell& cell) {
    return cell.ours.mean_s / least_of(cell, kBests[0], &UnseenFigures::mean_s);
  };
  std::ranges::stable_sort(
      cells, [&](const Cell& one, const Cell& other) { return over_best(one) > over_best(other); });
  std::printf("\nmean latency, s, where the default is worst beside the best with one sandbox\n");
  for (size_t i = 0; i < std::min<size_t>(cells.size(), 30); ++i) {
    std::printf("%5.2f  %-52s ours %.3f (cold %.1f %%)", over_best(cells[i]), cells[i].name.c_str(),
                cells[i].ours.mean_s, 100 * cells[i].ours.cold);
    for (size_t other = 0; other < kCount; ++other) {
      if (!kBests[0].has(kOthers[other])) continue;
      std::printf(" %s %.3f (%.1f)", kOthers[other].name, cells[i].others[other].mean_s,
                  100 * cells[i].others[other].cold);
    }
    std::printf("\n");
  }
}

// When clients that call again called first, by what they submitted since.
class FirstCalls {
 public:
  void add(FunctionId function, Instant submitted, Instant first) {
    calls_.emplace(std::pair(function.value, submitted), first);
  }
  // Of the invocation that was submitted then: that time itself, unless it is one of add().
  Instant take(FunctionId function, Instant submitted) {
    const auto found = calls_.find(std::pair(function.value, submitted));
    if (found == calls_.end()) return submitted;
    const Instant first = found->second;
    calls_.erase(found);
    return first;
  }

 private:
  std::multimap<std::pair<uint32_t, Instant>, Instant> calls_;
};
constexpr Duration kRetryPause = seconds(1);

}  // namespace

UnseenFigures run_unseen(const UnseenWorkload& workload, const System& system,
                         const UnseenSite& site) {
  Constants constants;
  constants.slowdown = site.slowdown;
  const simulator::WorkloadRunOptions options = options_of(system, site.site, constants, 1);
  const std::vector<workload::CatalogueEntry>& entries = workload.base.entries;
  simulator::SimulationOptions simulated{.dispatch = options.dispatch,
                                         .device = options.device,
                                         .faults = {},
                                         .functions = simulator::models_of(entries, options),
                                         .tenants = {},
                                         .tenant_changes = {},
                                         .seed = 1,
                                         .oracle = {}};
  if (workload.gives_up_after_s > 0) {
    simulated.dispatch.longest_wait = from_seconds(workload.gives_up_after_s);
  }
  std::vector<simulator::Arrival> arrivals;
  for (size_t i = 0; i < workload.base.arrivals.size(); ++i) {
    const workload::Arrival& one = workload.base.arrivals[i];
    arrivals.push_back({.at = Instant{} + one.at, .function = FunctionId{one.function + 1}});
    if (!workload.takes_s.empty()) arrivals.back().execution = from_seconds(workload.takes_s[i]);
  }
  for (const ClosedClient& client : workload.clients) {
    arrivals.push_back({.at = Instant{} + from_seconds(client.first_s),
                        .function = FunctionId{client.function + 1}});
  }
  std::ranges::stable_sort(arrivals, {}, &simulator::Arrival::at);
  std::vector<double> warm_s;
  for (const workload::CatalogueEntry& entry : entries) warm_s.push_back(entry.gpu_warm_s);
  workload::RunStatistics statistics(std::vector<std::string>(entries.size()), std::move(warm_s));
  simulator::Simulation* running = nullptr;
  // Which of a function's clients has the answer makes no difference: the one that thought least.
  std::vector<std::vector<double>> thinks_s(entries.size());
  for (const ClosedClient& client : workload.clients) {
    thinks_s[client.function].push_back(client.think_s);
  }
  std::vector<size_t> next(thinks_s.size());
  const Instant end = Instant{} + from_seconds(workload.base.length_s);
  FirstCalls first_calls;
  uint64_t given_up = 0;
  simulator::Simulation simulation(
      std::move(simulated), policy_of(system), [&](const simulator::SimulatedInvocation& one) {
        const uint32_t function = one.function.value - 1;
        const Instant first = first_calls.take(one.function, one.submitted);
        if (workload.gives_up_after_s > 0 && one.outcome.outcome == Outcome::kRejected) {
          first_calls.add(one.function, one.completed + kRetryPause, first);
          running->submit_after(kRetryPause, one.function);
          ++given_up;
          return;
        }
        statistics.add({.function = function,
                        .latency_s = to_seconds(one.completed - first),
                        .start = one.outcome.start,
                        .succeeded = one.outcome.outcome == Outcome::kSucceeded});
        if (thinks_s[function].empty()) return;
        const double think_s = thinks_s[function][next[function]++ % thinks_s[function].size()];
        if (one.completed + from_seconds(think_s) >= end) return;
        running->submit_after(from_seconds(think_s), one.function);
      });
  running = &simulation;
  simulation.run(simulator::arrivals_from(arrivals));
  UnseenFigures figures = figures_of(statistics.summary(0, 1));
  figures.given_up = given_up;
  figures.started_ahead = simulation.foreseen().started;
  figures.wasted = simulation.foreseen().wasted;
  return figures;
}

std::string over_unseen(const Plan& plan, const workload::Catalogue& catalogue, uint64_t seed) {
  if (seed == 0) seed = kJudgedUnseenSeed;
  std::vector<Cell> cells;
  std::map<std::string, Row> rows;
  for (const UnseenFamily& family : unseen_families()) {
    for (uint64_t s = seed; s < seed + (plan.quick ? 1 : kSeeds); ++s) {
      for (unsigned number = 0; number < (plan.quick ? 1 : kSites); ++number) {
        Cell cell{.family = family.name, .site = unseen_site(family.name, s, number)};
        const UnseenWorkload workload =
            std::move(unseen_workload(family.name, s, cell.site, catalogue)).value();
        cell.name = name_of(workload, cell.site);
        cell.ours = run_unseen(workload, system_named(kShipped), cell.site);
        for (const Other& other : kOthers) {
          cell.others.push_back(run_unseen(workload, system_named(other.name), cell.site));
        }
        const Site& at = cell.site.site;
        for (const std::string& key :
             {std::string("all"),
              std::string(family.is_later ? "later families" : "first families"),
              "family " + cell.family, "D " + std::to_string(at.tokens),
              "GPUs " + std::to_string(at.gpus),
              "slow-down " + bench::number(cell.site.slowdown)}) {
          add(rows[key], cell);
        }
        cells.push_back(std::move(cell));
      }
    }
  }
  std::printf(
      "the default over others with the same pool: geometric means (cells worse by over 2 %%; at "
      "most)\n%-49s",
      "");
  for (const Measure& measure : kMeasures) std::printf(" %-19s", measure.name);
  std::printf("\n");
  Joined json;
  for (const auto& [key, row] : rows) json.add(key, report(key, row));
  print_worst(cells);
  return json.add("seed", static_cast<double>(seed)).object();
}

}  // namespace lambent::paper_mqfq
