#include "bench/paper_mqfq/phases.h"

#include <cmath>
#include <cstdio>

#include "bench/json.h"

namespace lambent::paper_mqfq {

using bench::Joined;
using bench::number;
using bench::quoted;

namespace {

// How kernels share a device, and what one more beside them costs all: turns as the emulated device
// has them (2.1 for two); side by side without and with a guess for what they take of each other's
// memory bandwidth.
struct Mode {
  const char* name;
  Phased phased;
  double slowdown;
};
constexpr Mode kModes[] = {{"turns", Phased::kTurns, 1.1},
                           {"mps", Phased::kSideBySide, 0},
                           {"mps, 0.1", Phased::kSideBySide, 0.1}};
// Over which utilisation is smoothed: five readings.
constexpr double kAverage_s = 1;
constexpr double kKernelScales[] = {0.5, 1, 2};
constexpr unsigned kMost[] = {1, 2, 3, 4, 6};
const char* const kSystems[] = {"mqfq", "fcfs", "batch", "ours", kShipped};
const char* const kPools[] = {"mqfq-pool", "fcfs-pool", "batch-pool"};

Constants constants_of(const Mode& mode, double kernel_scale) {
  Constants constants;
  constants.phased = mode.phased;
  constants.slowdown = mode.slowdown;
  constants.kernel_scale = kernel_scale;
  return constants;
}

// One seed: what is asked is how large effects are.
Figures once(const Workload& workload, const std::string& system, const Site& site,
             const Constants& constants) {
  return run_once(workload, system_named(system), site, constants, 1);
}

struct Geometric {
  double logarithms = 0;
  size_t count = 0, worse = 0;
  double most = 0;
  void add(double ratio) {
    logarithms += std::log(ratio);
    ++count;
    if (ratio > 1.02) ++worse;
    most = std::max(most, ratio);
  }
  double mean() const { return count == 0 ? 1 : std::exp(logarithms / static_cast<double>(count)); }
};

// Figures 9b and 9c on the traces that stand for the paper's of high and medium load.
std::string figure9(const Bench& bench, const Mode& mode) {
  Joined rows;
  Constants constants = constants_of(mode, 1);
  for (const size_t place : {size_t{2}, size_t{8}}) {
    if (bench.plan.quick && place == 2) continue;
    const Workload& workload = bench.workloads.nine[place];
    const Figures alone = once(workload, "mqfq", {.tokens = 1}, constants);
    for (const double threshold : {0.0, 0.5, 0.8, 0.9}) {
      for (const bool average : {false, true}) {
        if (average && (threshold == 0 || bench.plan.quick)) continue;
        constants.utilisation_average_s = average ? kAverage_s : 0;
        std::printf("%-9s %-4s %-18s", mode.name, workload.name.c_str(),
                    threshold == 0
                        ? "fixed"
                        : ("below " + number(100 * threshold) + " %" + (average ? ", average" : ""))
                              .c_str());
        for (const unsigned most : kMost) {
          Site site{.tokens = most};
          if (threshold > 0) {
            site.by_utilisation =
                scheduling::UtilisationOptions{.threshold = threshold, .most = most};
          }
          const Figures one = once(workload, "mqfq", site, constants);
          std::printf("  %u: %.2f, %6.2f s, %2.0f %%", most, one.run_s / alone.run_s, one.mean_s,
                      100 * one.utilisation);
          rows.add(Joined()
                       .add("trace", quoted(workload.name))
                       .add("threshold", threshold > 0 ? number(threshold) : "null")
                       .add("average", bench::truth(average))
                       .add("D", most)
                       .add("run_over_D1", one.run_s / alone.run_s)
                       .add("mean_s", one.mean_s)
                       .add("utilisation", one.utilisation)
                       .object());
        }
        std::printf("\n");
      }
    }
  }
  return rows.list();
}

// What more at once gains: the mean over that at D 1, geometric over the nine.
std::string gain_of_more(const Bench& bench, const Mode& mode, double kernel_scale) {
  Joined of_systems;
  const Constants constants = constants_of(mode, kernel_scale);
  for (const char* name : kSystems) {
    Joined of_tokens;
    std::printf("%-9s kernels x %-4g %-11s", mode.name, kernel_scale, name);
    std::vector<double> alone_s;
    for (const unsigned tokens : kMost) {
      if (bench.plan.quick && tokens > 2) continue;
      Geometric over, utilisation;
      for (size_t i = 0; i < bench.workloads.nine.size(); ++i) {
        const Figures one = once(bench.workloads.nine[i], name, {.tokens = tokens}, constants);
        if (tokens == 1) alone_s.push_back(one.mean_s);
        over.add(one.mean_s / alone_s[i]);
        utilisation.add(one.utilisation);
      }
      std::printf("  %u: %.2f (%2.0f %%)", tokens, over.mean(), 100 * utilisation.mean());
      of_tokens.add(std::to_string(tokens), Joined()
                                                .add("mean_over_D1", over.mean())
                                                .add("utilisation", utilisation.mean())
                                                .object());
    }
    std::printf("\n");
    of_systems.add(name, of_tokens.object());
  }
  return of_systems.object();
}

// Ours over each of the others, and over the best of them, with the same pool, on what is judged.
std::string beside_pools(const Bench& bench, const Mode& mode) {
  Joined of_tokens;
  for (const unsigned tokens : {1U, 2U, 4U}) {
    if (bench.plan.quick && tokens != 2) continue;
    Geometric over[std::size(kPools)], best;
    size_t count = 0;
    for (const auto* kind : {&bench.workloads.nine, &bench.workloads.others}) {
      for (const Workload& workload : *kind) {
        if (workload.use != Use::kJudged) continue;
        if (bench.plan.quick && count++ % 5 != 0) continue;
        for (const unsigned pool : {8U, 16U}) {
          const Site site{.tokens = tokens, .pool = pool};
          const Constants constants = constants_of(mode, 1);
          const double ours_s = once(workload, kShipped, site, constants).mean_s;
          double best_s = 0;
          for (size_t i = 0; i < std::size(kPools); ++i) {
            const double theirs_s = once(workload, kPools[i], site, constants).mean_s;
            over[i].add(ours_s / theirs_s);
            best_s = i == 0 ? theirs_s : std::min(best_s, theirs_s);
          }
          best.add(ours_s / best_s);
        }
      }
    }
    Joined row;
    std::printf("%-9s D %u, %s over", mode.name, tokens, kShipped);
    for (size_t i = 0; i < std::size(kPools); ++i) {
      std::printf(" %s %.2f;", kPools[i], over[i].mean());
      row.add(kPools[i], over[i].mean());
    }
    std::printf(" best of them %.2f (%zu of %zu worse; at most %.2f)\n", best.mean(), best.worse,
                best.count, best.most);
    row.add("best", best.mean()).add("cells", static_cast<double>(best.count));
    row.add("worse", static_cast<double>(best.worse)).add("most", best.most);
    of_tokens.add(std::to_string(tokens), row.object());
  }
  return of_tokens.object();
}

}  // namespace

std::string over_phases(Bench& bench) {
  std::printf(
      "\nIn phases: host, link and kernels by turns (guesses, swept). Figures 9b, 9c: time at work "
      "over D 1's, mean latency, utilisation\n");
  Joined modes;
  for (const Mode& mode : kModes) {
    if (bench.plan.quick && &mode == &kModes[2]) continue;
    Joined of_mode;
    of_mode.add("slowdown", mode.slowdown).add("figure9", figure9(bench, mode));
    Joined gains;
    for (const double scale : kKernelScales) {
      if (bench.plan.quick && scale != 1) continue;
      gains.add(number(scale), gain_of_more(bench, mode, scale));
    }
    of_mode.add("mean_over_D1_by_kernel_scale", gains.object());
    modes.add(mode.name, of_mode.add("beside_pools", beside_pools(bench, mode)).object());
  }
  return modes.object();
}

}  // namespace lambent::paper_mqfq
