#include "bench/paper_mqfq/contention.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "bench/json.h"

namespace lambent::paper_mqfq {

using bench::Joined;
using bench::number;
using bench::quoted;

namespace {

// Two at work take 1 to 2.2 times as long each. 1: as if alone; 2: by turns; more: turns that cost.
constexpr double kSlowdowns[] = {0, 0.2, 0.5, 0.8, 1, 1.2};
constexpr unsigned kTokens[] = {1, 2, 3, 4};
constexpr unsigned kPools[] = {4, 8, 12, 16, 24};
const char* const kBaselines[] = {"mqfq-pool", "fcfs-pool", "batch-pool", "ours-fixed-one",
                                  "ours-fixed"};
// Of a mean latency, what counts as worse.
constexpr double kWorse = 1.02;

struct Cell {
  const Workload* workload = nullptr;
  double slowdown = 0;
  unsigned tokens = 0, pool = 0;
  double ours_s = 0, ours_p99_s = 0;
  std::vector<double> means_s, p99s_s;  // of kBaselines

  // Over the baseline, or over the best of the three of others.
  double ratio(size_t baseline) const { return ours_s / means_s[baseline]; }
  double over_best() const {
    return ours_s / *std::min_element(means_s.begin(), means_s.begin() + 3);
  }
};

struct Summary {
  size_t cells = 0, worse = 0;
  double logarithms = 0, most = 0;
  void add(double ratio) {
    ++cells;
    if (ratio > kWorse) ++worse;
    logarithms += std::log(ratio);
    most = std::max(most, ratio);
  }
  double mean() const { return cells == 0 ? 1 : std::exp(logarithms / static_cast<double>(cells)); }
  std::string json() const {
    return Joined()
        .add("mean", mean())
        .add("cells", static_cast<double>(cells))
        .add("worse", static_cast<double>(worse))
        .add("most", most)
        .object();
  }
};

void simulate(Cell& cell) {
  Constants constants;
  constants.slowdown = cell.slowdown;
  const Site site{.tokens = cell.tokens, .pool = cell.pool};
  const Figures ours = run_once(*cell.workload, system_named(kShipped), site, constants, 1);
  cell.ours_s = ours.mean_s;
  cell.ours_p99_s = ours.p99_s;
  for (const char* name : kBaselines) {
    const Figures figures = run_once(*cell.workload, system_named(name), site, constants, 1);
    cell.means_s.push_back(figures.mean_s);
    cell.p99s_s.push_back(figures.p99_s);
  }
}

std::vector<Cell> run_cells(const Bench& bench) {
  std::vector<Cell> cells;
  size_t number = 0;
  for (const auto* kind :
       {&bench.workloads.nine, &bench.workloads.others, &bench.workloads.drawn}) {
    for (const Workload& workload : *kind) {
      for (const double slowdown : kSlowdowns) {
        for (const unsigned tokens : kTokens) {
          for (const unsigned pool : kPools) {
            // In a quick run every 37th: each value of each axis, and no two workloads alike.
            if (bench.plan.quick && number++ % 37 != 0) continue;
            cells.push_back({&workload, slowdown, tokens, pool});
            simulate(cells.back());
          }
        }
      }
    }
  }
  return cells;
}

using Key = std::function<std::string(const Cell&)>;
const std::vector<std::pair<const char*, Key>>& axes() {
  static const std::vector<std::pair<const char*, Key>> kAxes = {
      {"all", [](const Cell&) { return std::string("all"); }},
      {"slowdown", [](const Cell& cell) { return number(cell.slowdown); }},
      {"D", [](const Cell& cell) { return std::to_string(cell.tokens); }},
      {"pool", [](const Cell& cell) { return std::to_string(cell.pool); }},
      {"family", [](const Cell& cell) { return cell.workload->family; }}};
  return kAxes;
}

// By the values of one axis; keys in the order of their numbers.
std::map<std::pair<double, std::string>, std::vector<Summary>> summaries(
    const std::vector<Cell>& cells, Use use, const Key& key) {
  std::map<std::pair<double, std::string>, std::vector<Summary>> by;
  for (const Cell& cell : cells) {
    if (cell.workload->use != use) continue;
    const std::string value = key(cell);
    auto& row = by[{std::strtod(value.c_str(), nullptr), value}];
    row.resize(std::size(kBaselines) + 1);
    for (size_t i = 0; i < std::size(kBaselines); ++i) row[i].add(cell.ratio(i));
    row.back().add(cell.over_best());
  }
  return by;
}

std::string report_of(Bench& bench, const std::vector<Cell>& cells, Use use) {
  const bool judged = use == Use::kJudged;
  std::printf(
      "\n%s over systems with the same pool, mean latency, %s workloads: geometric mean "
      "(worse by over 2 %%, of so many; at most)\n%-22s",
      kShipped, judged ? "judged" : "training", "");
  for (const char* name : kBaselines) std::printf(" %22s", name);
  std::printf(" %22s\n", "best of the first 3");
  Joined of_axes;
  for (const auto& [axis, key] : axes()) {
    Joined of_values;
    for (const auto& [value, row] : summaries(cells, use, key)) {
      std::printf("%-9s %-12s", axis, value.second.c_str());
      Joined of_baselines;
      for (size_t i = 0; i < row.size(); ++i) {
        const Summary& summary = row[i];
        const std::string name = i < std::size(kBaselines) ? kBaselines[i] : "best";
        char text[64];
        std::snprintf(text, sizeof(text), "%.2f (%zu/%zu; %.1f)", summary.mean(), summary.worse,
                      summary.cells, summary.most);
        std::printf(" %22s", text);
        of_baselines.add(name, summary.json());
        // Families have some twenty workloads at most: no goal for each.
        const bool is_goal = name == "best" || name == "ours-fixed-one";
        if (!judged || !is_goal || axis == std::string("family")) continue;
        bench.goals.push_back(
            {std::string(kShipped) + " over " + name + ", mean, " + axis + " " + value.second,
             "at most 1",
             summary.mean(),
             summary.mean() <= 1,
             "order and what is weighed",
             {}});
      }
      std::printf("\n");
      of_values.add(value.second, of_baselines.object());
    }
    of_axes.add(axis, of_values.object());
  }
  Summary p99;
  for (const Cell& cell : cells) {
    if (cell.workload->use == use) p99.add(cell.ours_p99_s / cell.p99s_s[0]);
  }
  std::printf("p99 over mqfq-pool: %.2f (%zu/%zu; %.1f)\n", p99.mean(), p99.worse, p99.cells,
              p99.most);
  of_axes.add("p99_over_mqfq_pool", p99.json());
  return of_axes.object();
}

}  // namespace

std::string over_contention(Bench& bench) {
  const std::vector<Cell> cells = run_cells(bench);
  Joined both;
  both.add("judged", report_of(bench, cells, Use::kJudged));
  both.add("training", report_of(bench, cells, Use::kTraining));
  return both.add("cells", static_cast<double>(cells.size())).object();
}

}  // namespace lambent::paper_mqfq
