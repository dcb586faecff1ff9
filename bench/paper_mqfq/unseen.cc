#include "bench/paper_mqfq/unseen.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "bench/json.h"
#include "core/base/check.h"
#include "sim/simulator/simulation.h"

namespace lambent::paper_mqfq {

using bench::Joined;

namespace {

// What ships, and what it is judged against: each with its pool.
constexpr const char* kDefault = "ours-ahead";
const char* const kOthers[] = {"mqfq-pool", "fcfs-pool",       "batch-pool",
                               "sjf-pool",  "sjf-set-up-pool", "eevdf-pool"};
constexpr size_t kCount = std::size(kOthers);
constexpr unsigned kSeeds = 6, kSites = 4;
// What counts as worse.
constexpr double kWorse = 1.02;

std::vector<simulator::FunctionModel> models_of(const Workload& workload,
                                                const simulator::WorkloadRunOptions& options) {
  std::vector<simulator::FunctionModel> models;
  for (const workload::CatalogueEntry& entry : workload.entries) {
    simulator::FunctionModel model;
    model.profile.id = FunctionId{static_cast<uint32_t>(models.size() + 1)};
    model.profile.tenant = TenantId{1};
    model.profile.max_concurrency = options.max_concurrency;
    model.profile.device_memory = entry.device_memory + options.context_memory;
    model.profile.timeout = std::chrono::hours(24 * 365);
    model.execution = from_seconds(entry.gpu_warm_s);
    model.spread = options.spread;
    model.sandbox_time = options.sandbox_time;
    model.init_time = from_seconds(entry.init_s());
    models.push_back(model);
  }
  return models;
}

// What is kept of the outcomes.
class Outcomes {
 public:
  explicit Outcomes(const Workload& workload)
      : entries_(workload.entries), sums_s_(entries_.size()), counts_(entries_.size()) {}

  void add(const simulator::SimulatedInvocation& invocation) {
    ++figures_.invocations;
    if (invocation.outcome.outcome != Outcome::kSucceeded) {
      ++figures_.failed;
      return;
    }
    const double latency_s = to_seconds(invocation.completed - invocation.submitted);
    latencies_s_.push_back(latency_s);
    sums_s_[invocation.function.value - 1] += latency_s;
    ++counts_[invocation.function.value - 1];
    if (invocation.outcome.start == StartClass::kCold) ++cold_;
  }

  UnseenFigures figures() {
    CHECK(!latencies_s_.empty(), "a workload has invocations");
    double sum_s = 0;
    for (const double latency_s : latencies_s_) sum_s += latency_s;
    const auto count = static_cast<double>(latencies_s_.size());
    figures_.mean_s = sum_s / count;
    std::ranges::sort(latencies_s_);
    figures_.p50_s = latencies_s_[latencies_s_.size() / 2];
    figures_.p99_s = latencies_s_[latencies_s_.size() * 99 / 100];
    figures_.cold = static_cast<double>(cold_) / count;
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) continue;
      const double mean_s = sums_s_[i] / static_cast<double>(counts_[i]);
      figures_.worst_slowdown = std::max(figures_.worst_slowdown, mean_s / entries_[i].gpu_warm_s);
    }
    return figures_;
  }

 private:
  const std::vector<workload::CatalogueEntry>& entries_;
  UnseenFigures figures_;
  std::vector<double> latencies_s_, sums_s_;
  std::vector<uint64_t> counts_;
  uint64_t cold_ = 0;
};

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
// By measure: over each of kOthers, and over the best of them.
using Row = std::vector<std::vector<Ratios>>;

void add(Row& row, const Cell& cell) {
  row.resize(std::size(kMeasures));
  for (size_t m = 0; m < row.size(); ++m) {
    row[m].resize(kCount + 1);
    const double ours = cell.ours.*kMeasures[m].of;
    double least = cell.others.front().*kMeasures[m].of;
    for (size_t i = 0; i < kCount; ++i) {
      const double other = cell.others[i].*kMeasures[m].of;
      least = std::min(least, other);
      row[m][i].add(ours / other, cell.name);
    }
    row[m][kCount].add(ours / least, cell.name);
  }
}

std::string name_of(const UnseenWorkload& workload, const UnseenSite& site) {
  return workload.base.name + " @ " + paper_mqfq::name_of(site.site) + ", slow-down " +
         bench::number(site.slowdown);
}

std::string report(const std::string& key, const Row& row) {
  Joined all;
  for (size_t m = 0; m < row.size(); ++m) {
    std::printf("%-16s %-14s", m == 0 ? key.c_str() : "", kMeasures[m].name);
    Joined of_measure;
    for (size_t i = 0; i <= kCount; ++i) {
      const Ratios& ratios = row[m][i];
      std::printf(" %5.2f (%3zu; %5.2f)", ratios.mean(), ratios.worse, ratios.most);
      of_measure.add(i < kCount ? kOthers[i] : "best",
                     Joined()
                         .add("mean", ratios.mean())
                         .add("worse", static_cast<double>(ratios.worse))
                         .add("most", ratios.most)
                         .add("worst", bench::quoted(ratios.worst))
                         .object());
    }
    std::printf("\n");
    all.add(kMeasures[m].name, of_measure.object());
  }
  return all.add("cells", static_cast<double>(row.front().front().cells)).object();
}

void print_worst(std::vector<Cell>& cells) {
  const auto over_best = [](const Cell& cell) {
    double least = cell.others.front().mean_s;
    for (const UnseenFigures& other : cell.others) least = std::min(least, other.mean_s);
    return cell.ours.mean_s / least;
  };
  std::ranges::stable_sort(
      cells, [&](const Cell& one, const Cell& other) { return over_best(one) > over_best(other); });
  std::printf("\nmean latency, s, where the default is worst beside the best of the others\n");
  for (size_t i = 0; i < std::min<size_t>(cells.size(), 30); ++i) {
    std::printf("%5.2f  %-52s ours %.3f (cold %.1f %%)", over_best(cells[i]), cells[i].name.c_str(),
                cells[i].ours.mean_s, 100 * cells[i].ours.cold);
    for (size_t other = 0; other < kCount; ++other) {
      std::printf(" %s %.3f (%.1f)", kOthers[other], cells[i].others[other].mean_s,
                  100 * cells[i].others[other].cold);
    }
    std::printf("\n");
  }
}

}  // namespace

UnseenFigures run_unseen(const UnseenWorkload& workload, const System& system,
                         const UnseenSite& site) {
  Constants constants;
  constants.slowdown = site.slowdown;
  const simulator::WorkloadRunOptions options = options_of(system, site.site, constants, 1);
  simulator::SimulationOptions simulated{.dispatch = options.dispatch,
                                         .device = options.device,
                                         .faults = {},
                                         .functions = models_of(workload.base, options),
                                         .tenants = {},
                                         .tenant_changes = {},
                                         .seed = 1,
                                         .oracle = {}};
  // What starts ahead would gain if all calls were known.
  if (system.clairvoyant) {
    simulated.oracle = simulator::oracle_of(workload.base.arrivals, workload.base.entries.size());
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
  Outcomes outcomes(workload.base);
  simulator::Simulation* running = nullptr;
  // Which of a function's clients has the answer makes no difference: the one that thought least.
  std::vector<std::vector<double>> thinks_s(workload.base.entries.size());
  for (const ClosedClient& client : workload.clients) {
    thinks_s[client.function].push_back(client.think_s);
  }
  std::vector<size_t> next(thinks_s.size());
  const Instant end = Instant{} + from_seconds(workload.base.length_s);
  simulator::Simulation simulation(
      std::move(simulated), policy_of(system), [&](const simulator::SimulatedInvocation& one) {
        outcomes.add(one);
        const uint32_t function = one.function.value - 1;
        if (thinks_s[function].empty()) return;
        const double think_s = thinks_s[function][next[function]++ % thinks_s[function].size()];
        if (one.completed + from_seconds(think_s) >= end) return;
        running->submit_after(from_seconds(think_s), one.function);
      });
  running = &simulation;
  simulation.run(simulator::arrivals_from(arrivals));
  UnseenFigures figures = outcomes.figures();
  figures.started_ahead = simulation.foreseen().started;
  figures.wasted = simulation.foreseen().wasted;
  return figures;
}

std::string over_unseen(const Plan& plan, const workload::Catalogue& catalogue, uint64_t seed) {
  std::vector<Cell> cells;
  std::map<std::string, Row> rows;
  for (const UnseenFamily& family : unseen_families()) {
    for (uint64_t s = seed; s < seed + (plan.quick ? 1 : kSeeds); ++s) {
      for (unsigned number = 0; number < (plan.quick ? 1 : kSites); ++number) {
        Cell cell{.family = family.name, .site = unseen_site(family.name, s, number)};
        const UnseenWorkload workload =
            std::move(unseen_workload(family.name, s, cell.site, catalogue)).value();
        cell.name = name_of(workload, cell.site);
        cell.ours = run_unseen(workload, system_named(kDefault), cell.site);
        for (const char* other : kOthers) {
          cell.others.push_back(run_unseen(workload, system_named(other), cell.site));
        }
        const Site& at = cell.site.site;
        for (const std::string& key :
             {std::string("all"), "family " + cell.family, "D " + std::to_string(at.tokens),
              "GPUs " + std::to_string(at.gpus),
              "slow-down " + bench::number(cell.site.slowdown)}) {
          add(rows[key], cell);
        }
        cells.push_back(std::move(cell));
      }
    }
  }
  std::printf(
      "the default over others with the same pool: geometric mean (worse by over 2 %%; at "
      "most)\n%-31s",
      "");
  for (const char* other : kOthers) std::printf(" %18s", other);
  std::printf(" %18s\n", "best of these");
  Joined json;
  for (const auto& [key, row] : rows) json.add(key, report(key, row));
  print_worst(cells);
  return json.add("seed", static_cast<double>(seed)).object();
}

}  // namespace lambent::paper_mqfq
