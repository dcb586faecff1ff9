#include "bench/paper_mqfq/foreseen.h"

#include <cmath>
#include <cstdio>
#include <map>

#include "bench/json.h"

namespace lambent::paper_mqfq {

using bench::Joined;
using bench::number;

namespace {

constexpr unsigned kPools[] = {4, 8, 16, 24};
constexpr double kSlowdowns[] = {0.2, 1.1};
// Over the first one; the last one is the clairvoyant.
const char* const kSystems[] = {"ours",      "ours-ahead", "ours-gaps",  "ours-foreseen",
                                "mqfq-pool", "fcfs-pool",  "batch-pool", "clairvoyant"};
constexpr size_t kCount = std::size(kSystems);
// Of a mean latency, what counts as worse.
constexpr double kWorse = 1.02;

struct Cell {
  const Workload* workload = nullptr;
  double slowdown = 0;
  unsigned pool = 0;
  std::vector<Figures> figures;  // of kSystems
};

// Geometric means of what systems have over one of them.
struct Row {
  size_t cells = 0;
  double over_ours[kCount] = {}, over_clairvoyant[kCount] = {}, over_least[kCount] = {};
  double most[kCount] = {}, p99_over_ours[kCount] = {}, cold[kCount] = {};
  size_t worse[kCount] = {};

  void add(const Cell& cell) {
    ++cells;
    for (size_t i = 0; i < kCount; ++i) {
      const Figures& one = cell.figures[i];
      const double ratio = one.mean_s / cell.figures[0].mean_s;
      over_ours[i] += std::log(ratio);
      over_clairvoyant[i] += std::log(one.mean_s / cell.figures.back().mean_s);
      over_least[i] += std::log(one.mean_s / one.least_s);
      p99_over_ours[i] += std::log(one.p99_s / cell.figures[0].p99_s);
      cold[i] += one.cold;
      most[i] = std::max(most[i], ratio);
      if (ratio > kWorse) ++worse[i];
    }
  }
  double geometric(const double (&sums)[kCount], size_t i) const {
    return std::exp(sums[i] / static_cast<double>(cells));
  }
};

std::string json_of(const Row& row) {
  Joined all;
  all.add("cells", static_cast<double>(row.cells));
  for (size_t i = 0; i < kCount; ++i) {
    all.add(kSystems[i], Joined()
                             .add("mean_over_ours", row.geometric(row.over_ours, i))
                             .add("worse", static_cast<double>(row.worse[i]))
                             .add("most", row.most[i])
                             .add("p99_over_ours", row.geometric(row.p99_over_ours, i))
                             .add("over_clairvoyant", row.geometric(row.over_clairvoyant, i))
                             .add("over_least", row.geometric(row.over_least, i))
                             .add("cold_ratio", row.cold[i] / static_cast<double>(row.cells))
                             .object());
  }
  return all.object();
}

void print(const std::string& name, const Row& row) {
  std::printf("%-26s %4zu cells\n", name.c_str(), row.cells);
  for (size_t i = 0; i < kCount; ++i) {
    std::printf(
        "  %-14s over ours %.3f (%zu worse; at most %.2f), p99 %.3f, over clairvoyant %.2f, "
        "over least %.2f, cold %.1f %%\n",
        kSystems[i], row.geometric(row.over_ours, i), row.worse[i], row.most[i],
        row.geometric(row.p99_over_ours, i), row.geometric(row.over_clairvoyant, i),
        row.geometric(row.over_least, i), 100 * row.cold[i] / static_cast<double>(row.cells));
  }
}

void simulate(Cell& cell) {
  Constants constants;
  constants.slowdown = cell.slowdown;
  const Site site{.pool = cell.pool};
  for (const char* name : kSystems) {
    cell.figures.push_back(run_once(*cell.workload, system_named(name), site, constants, 1));
  }
}

}  // namespace

std::string over_foresight(Bench& bench, const std::vector<Workload>& days) {
  std::map<std::string, Row> rows;
  size_t count = 0;
  const Workloads& all = bench.workloads;
  for (const auto* kind : {&all.nine, &all.others, &all.drawn, &days}) {
    for (const Workload& workload : *kind) {
      for (const double slowdown : kSlowdowns) {
        for (const unsigned pool : kPools) {
          if (bench.plan.quick && count++ % 7 != 0) continue;
          Cell cell{&workload, slowdown, pool, {}};
          simulate(cell);
          const std::string use = workload.use == Use::kJudged ? "judged" : "training";
          rows[use + ", all"].add(cell);
          rows[use + ", " + workload.family].add(cell);
          rows[use + ", pool " + std::to_string(pool)].add(cell);
          rows[use + ", slow-down " + number(slowdown)].add(cell);
        }
      }
    }
  }
  Joined json;
  for (const auto& [name, row] : rows) {
    print(name, row);
    json.add(name, json_of(row));
  }
  return json.object();
}

}  // namespace lambent::paper_mqfq
