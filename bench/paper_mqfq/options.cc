#include "bench/paper_mqfq/options.h"

#include <cmath>
#include <cstdio>
#include <map>

#include "bench/json.h"

namespace lambent::paper_mqfq {

using bench::Joined;
using bench::number;

namespace {

struct Option {
  const char* name;
  const char* without;
};
constexpr Option kOptions[] = {{"mqfq-early", "mqfq"},
                               {"ours-early", "ours-ahead"},
                               {"ours-grace", "ours-ahead"},
                               {"ours-worth", "ours-ahead"}};
constexpr unsigned kPools[] = {4, 8, 16, 24};
constexpr double kSlowdowns[] = {0.2, 1.1};
constexpr double kMemoryScales[] = {1, 2};
// Of a mean latency, what counts as worse.
constexpr double kWorse = 1.02;

struct Row {
  size_t cells = 0, worse = 0;
  double logarithms = 0, least = 1e9, most = 0;
  double cold_before = 0, cold = 0;

  void add(const Figures& before, const Figures& now) {
    const double ratio = now.mean_s / before.mean_s;
    ++cells;
    if (ratio > kWorse) ++worse;
    logarithms += std::log(ratio);
    least = std::min(least, ratio);
    most = std::max(most, ratio);
    cold_before += before.cold;
    cold += now.cold;
  }
  double mean() const { return std::exp(logarithms / static_cast<double>(cells)); }
  std::string json() const {
    const auto count = static_cast<double>(cells);
    return Joined()
        .add("mean", mean())
        .add("cells", count)
        .add("worse", static_cast<double>(worse))
        .add("least", least)
        .add("most", most)
        .add("cold_ratio_without", cold_before / count)
        .add("cold_ratio", cold / count)
        .object();
  }
};

}  // namespace

std::string over_options(const Bench& bench) {
  std::printf("\nOptions, mean latency over the same system without\n");
  std::map<std::string, std::map<std::string, Row>> rows;  // by option
  size_t count = 0;
  const Workloads& all = bench.workloads;
  for (const auto* kind : {&all.nine, &all.others, &all.drawn}) {
    for (const Workload& workload : *kind) {
      for (const double slowdown : kSlowdowns) {
        for (const double memory_scale : kMemoryScales) {
          for (const unsigned pool : kPools) {
            if (bench.plan.quick && count++ % 29 != 0) continue;
            Constants constants;
            constants.slowdown = slowdown;
            constants.memory_scale = memory_scale;
            std::map<std::string, Figures> known;
            const auto figures = [&](const char* name) {
              if (!known.contains(name)) {
                known[name] = run_once(workload, system_named(name), {.pool = pool}, constants, 1);
              }
              return known[name];
            };
            for (const Option& option : kOptions) {
              const Figures before = figures(option.without), now = figures(option.name);
              const std::string use = workload.use == Use::kJudged ? "judged" : "training";
              auto& of_option = rows[option.name];
              for (const std::string& by :
                   {std::string("all"), "pool " + std::to_string(pool),
                    "slow-down " + number(slowdown), "memory x " + number(memory_scale)}) {
                of_option[use + ", " + by].add(before, now);
              }
            }
          }
        }
      }
    }
  }
  Joined json;
  for (const auto& [option, of_option] : rows) {
    Joined one;
    for (const auto& [name, row] : of_option) {
      std::printf("%-12s %-24s %.3f (%zu of %zu worse; %.2f to %.2f), cold %.1f -> %.1f %%\n",
                  option.c_str(), name.c_str(), row.mean(), row.worse, row.cells, row.least,
                  row.most, 100 * row.cold_before / static_cast<double>(row.cells),
                  100 * row.cold / static_cast<double>(row.cells));
      one.add(name, row.json());
    }
    json.add(option, one.object());
  }
  return json.object();
}

}  // namespace lambent::paper_mqfq
