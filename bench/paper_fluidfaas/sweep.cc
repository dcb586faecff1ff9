// The sweep: candidates of each system's settings, judged on generated loads of one scene. All
// systems have about as many candidates, and the same judge.
#include <algorithm>
#include <cstdio>

#include "bench/paper_fluidfaas/experiments.h"
#include "bench/paper_fluidfaas/plan.h"

namespace lambent::paper_fluidfaas {

using slice_scheduling::EsgOptions;
using slice_scheduling::FluidFaasOptions;
using slice_scheduling::InflessOptions;
using slice_scheduling::SloPolicyOptions;
using slice_scheduling::WholeFunctionsOptions;

namespace {

template <typename... Values>
std::string text_of(const char* format, Values... values) {
  char text[160];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

std::vector<Candidate> candidates_of_baseline(const System& base) {
  std::vector<Candidate> candidates;
  const bool esg = base.name == "esg";
  for (const double least_idle_s : {0.1, 10.0, 1e6}) {
    for (const double envy : {0.0, 1.5}) {
      // Slices change hands readily, after ten seconds of rest, or never.
      if ((envy > 0) != (least_idle_s < 1)) continue;
      for (const double headroom : {2.0, 5.0, 10.0, 20.0, 50.0}) {
        // ESG's slack; of INFless, over how long it averages the rate.
        for (const double third : {esg ? 0.25 : 3.0, esg ? 0.75 : 10.0}) {
          Candidate candidate;
          candidate.system = base;
          WholeFunctionsOptions whole{.least_idle = from_seconds(least_idle_s), .envy = envy};
          if (!esg) whole.memory = from_seconds(third);
          candidate.system.options.esg =
              EsgOptions{.whole = whole, .slack = esg ? third : 0.25, .headroom = headroom};
          candidate.system.options.infless = InflessOptions{.whole = whole, .headroom = headroom};
          candidate.name = text_of("least_idle %g s, envy %g, headroom %g, %s %g", least_idle_s,
                                   envy, headroom, esg ? "slack" : "memory", third);
          candidates.push_back(candidate);
        }
      }
    }
  }
  return candidates;
}

std::vector<Candidate> candidates_of_published(const System& base) {
  std::vector<Candidate> candidates;
  for (const double share : {0.1, 0.2, 0.3, 0.5, 0.8}) {
    for (const double shrink : {0.05, 0.1, 0.3}) {
      for (const double pause_s : {2.0, 10.0}) {
        for (const pipeline::RankRule rule :
             {pipeline::RankRule::kBalance, pipeline::RankRule::kThroughput}) {
          Candidate candidate;
          candidate.system = base;
          candidate.system.rule = rule;
          candidate.system.options.fluid_faas =
              FluidFaasOptions{.time_sharing_below = share,
                               .shrink_sharing_below = shrink,
                               .resize_pause = from_seconds(pause_s)};
          candidate.name = text_of(
              "time_sharing_below %g, shrink_sharing_below %g, resize_pause %g s, rank %s", share,
              shrink, pause_s, rule == pipeline::RankRule::kBalance ? "balance" : "throughput");
          candidates.push_back(candidate);
        }
      }
    }
  }
  return candidates;
}

std::vector<Candidate> candidates_of_ours(const System& base) {
  std::vector<Candidate> candidates;
  for (const double spare_ratio : {1.5, 2.5, 6.0}) {
    for (const double stay_starts : {2.0, 5.0, 20.0}) {
      for (const double most_busy : {0.7, 0.85}) {
        for (const unsigned late_turn : {2u, 4u, 16u}) {
          Candidate candidate;
          candidate.system = base;
          SloPolicyOptions& slo = candidate.system.options.slo;
          slo.spare_ratio = spare_ratio;
          slo.stay_starts = stay_starts;
          slo.most_busy = most_busy;
          slo.late_turn = late_turn;
          candidate.name = text_of("spare_ratio %g, stay_starts %g, most_busy %g, late_turn %u",
                                   spare_ratio, stay_starts, most_busy, late_turn);
          candidates.push_back(candidate);
        }
      }
    }
  }
  return candidates;
}

struct Judged {
  Setting setting;
  Load load;
  double most_per_s = 0;  // what answers are held against
};

// On P1 at the rates of the comparison: the trace's, half and 1.1 times what whole functions can
// take, and 1.3 times what pieces can; crowded: two rates. By a generator, with a seed of its own.
std::vector<Judged> loads_of(Scene scene) {
  constexpr uint64_t kSeed = 77;
  std::vector<Judged> all;
  Plan plan;
  plan.warm_s = 15;
  if (scene == Scene::kCrowded) {
    for (const double gap_s : {120.0, 60.0, 30.0}) {
      all.push_back(
          {crowded_setting(plan, kSeed), visits(CrowdedPlan::kFunctions, gap_s, 300, kSeed), 0});
    }
    return all;
  }
  plan.seconds_of_small = 6;
  plan.seconds_of_medium = plan.seconds_of_large = 20;
  for (const Point& point : {Point{"trace", Point::Of::kTrace, 1},
                             {"half", Point::Of::kWhole, 0.5},
                             {"full", Point::Of::kWhole, 1.1},
                             {"saturated", Point::Of::kCut, 1.3}}) {
    Prepared one = prepare(plan, "P1", static_cast<Size>(scene), point, kSeed);
    one.setting.drain_s = 10;
    all.push_back({one.setting, one.load, one.bounds.cut});
  }
  return all;
}

}  // namespace

// Answers in time count half, and so do answers beside what could be answered.
std::vector<Candidate> sweep(const std::string& name, Scene scene, bool quick) {
  const System base = system_named(name, scene);
  std::vector<Candidate> candidates = name == kOurs         ? candidates_of_ours(base)
                                      : name == "fluidfaas" ? candidates_of_published(base)
                                                            : candidates_of_baseline(base);
  if (quick) {
    std::vector<Candidate> some;
    for (size_t i = 0; i < candidates.size(); i += 10) some.push_back(candidates[i]);
    candidates = some;
  }
  const std::vector<Judged> loads = loads_of(scene);
  for (Candidate& candidate : candidates) {
    for (const auto& [setting, load, most_per_s] : loads) {
      const Figures figures = measure(candidate.system, setting, load);
      const double most =
          most_per_s > 0 ? std::min(most_per_s, figures.offered_per_s) : figures.offered_per_s;
      const double weight = 1 / static_cast<double>(loads.size());
      candidate.hit_pct += weight * figures.hit_pct;
      candidate.throughput_share += weight * std::min(1.0, figures.throughput_per_s / most);
    }
    candidate.score = candidate.hit_pct / 200 + candidate.throughput_share / 2;
  }
  std::ranges::stable_sort(
      candidates, [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  return candidates;
}

}  // namespace lambent::paper_fluidfaas
