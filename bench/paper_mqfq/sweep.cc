#include "bench/paper_mqfq/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lambent::paper_mqfq {
namespace {

std::vector<const Workload*> training_of(const Workloads& workloads) {
  std::vector<const Workload*> chosen;
  for (const auto* family : {&workloads.nine, &workloads.others, &workloads.drawn}) {
    for (const Workload& workload : *family) {
      if (workload.use == Use::kTraining) chosen.push_back(&workload);
    }
  }
  return chosen;
}

}  // namespace

std::string sweep_of_all(Bench& bench) {
  const std::vector<const Workload*> training = training_of(bench.workloads);
  std::string text =
      "# The best settings of each system on the training workloads: t2, t5, t8 and six of the\n"
      "# generator's. Written by `paper_mqfq_bench --traces DIR --sweep`.\n";
  std::vector<std::string> names = swept();
  // Our settings are the product's: shown, not written.
  names.push_back("ours");
  for (const std::string& name : names) {
    std::vector<std::pair<double, std::string>> scored;
    for (const System& candidate : candidates_of(name)) {
      double logarithms = 0;
      for (const Workload* workload : training) {
        const auto& figures = bench.runs.of(*workload, candidate, bench.plan.site);
        logarithms += std::log(estimate(figures, &Figures::mean_s).mean);
      }
      scored.emplace_back(std::exp(logarithms / static_cast<double>(training.size())),
                          settings_of(candidate));
    }
    std::ranges::stable_sort(scored, {}, &std::pair<double, std::string>::first);
    for (const auto& [score, settings] : scored) {
      std::fprintf(stderr, "%-11s %8.3f s  %s\n", name.c_str(), score, settings.c_str());
    }
    if (name != "ours") text += name + ";" + scored.front().second + "\n";
  }
  return text;
}

}  // namespace lambent::paper_mqfq
