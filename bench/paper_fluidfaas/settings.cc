// The systems at their best settings, and the sweep that found them.
#include <algorithm>
#include <cstdio>

#include "base/check.h"
#include "bench/paper_fluidfaas/experiments.h"
#include "bench/paper_fluidfaas/plan.h"

namespace lambent::paper_fluidfaas {

using slice_scheduling::EsgOptions;
using slice_scheduling::InflessOptions;
using slice_scheduling::WholeFunctionsOptions;

namespace {

System named(System system, const char* name) {
  system.name = name;
  return system;
}

System ours() {
  System system{"ours", "slo"};
  system.rule = pipeline::RankRule::kThroughput;
  return system;
}

std::vector<Candidate> candidates_of_baseline(const System& base) {
  std::vector<Candidate> candidates;
  for (const double least_idle_s : {0.1, 10.0, 1e6}) {
    for (const double envy : {0.0, 1.5}) {
      for (const double headroom : {1.5, 2.0, 3.0, 5.0}) {
        Candidate candidate;
        candidate.system = base;
        const WholeFunctionsOptions whole{.least_idle = from_seconds(least_idle_s), .envy = envy};
        candidate.system.options.esg = EsgOptions{.whole = whole, .headroom = headroom};
        candidate.system.options.infless = InflessOptions{.whole = whole, .headroom = headroom};
        char text[128];
        std::snprintf(text, sizeof(text), "least_idle %g s, envy %g, headroom %g", least_idle_s,
                      envy, headroom);
        candidate.name = text;
        candidates.push_back(candidate);
      }
    }
  }
  return candidates;
}

std::vector<Candidate> candidates_of_ours(const System& base) {
  std::vector<Candidate> candidates;
  for (const double spare_ratio : {2.0, 4.0, 8.0}) {
    for (const double stay_starts : {5.0, 20.0}) {
      for (const double most_busy : {0.7, 0.85}) {
        Candidate candidate;
        candidate.system = base;
        candidate.system.options.slo.spare_ratio = spare_ratio;
        candidate.system.options.slo.stay_starts = stay_starts;
        candidate.system.options.slo.most_busy = most_busy;
        char text[128];
        std::snprintf(text, sizeof(text), "spare_ratio %g, stay_starts %g, most_busy %g",
                      spare_ratio, stay_starts, most_busy);
        candidate.name = text;
        candidates.push_back(candidate);
      }
    }
  }
  return candidates;
}

// The medium load and the heavy one, at a tenth, at half and at one and a half times what whole
// functions can take; answers in time count half, and so do answers over that bound.
void judge(Candidate& candidate) {
  size_t runs = 0;
  for (const Size size : {Size::kMedium, Size::kLarge}) {
    Setting setting;
    setting.layout = &layout_named("P1");
    setting.size = size;
    setting.warm_s = 30;
    setting.drain_s = 20;
    const size_t count = applications(size, setting.constants, pipeline::RankRule::kBalance).size();
    const Load load = generated_load(size, 7, 30);
    const auto mix = mix_of(load, count);
    double rate = 0;
    for (const double one : mix) rate += one;
    const double bound = bound_of(setting, mix, true);
    for (const double utilisation : {0.1, 0.5, 1.5}) {
      const Load offered = scaled(load, utilisation * bound / rate, 30, count, 7);
      const Figures figures = measure(candidate.system, setting, offered);
      candidate.hit_pct += figures.hit_pct;
      candidate.throughput_share +=
          figures.throughput_per_s / std::min(bound, figures.offered_per_s);
      ++runs;
    }
  }
  candidate.hit_pct /= static_cast<double>(runs);
  candidate.throughput_share /= static_cast<double>(runs);
  candidate.score = candidate.hit_pct / 200 + candidate.throughput_share / 2;
}

}  // namespace

std::vector<System> systems() {
  // The best of --sweep, committed before ours was tuned.
  System esg{"esg", "esg"};
  esg.pipelines = false;
  esg.options.esg.whole = {.least_idle = seconds(10), .envy = 0};
  esg.options.esg.headroom = 2;
  System infless{"infless", "infless"};
  infless.pipelines = false;
  infless.options.infless.whole = {.least_idle = seconds(10), .envy = 0};
  infless.options.infless.headroom = 2;
  return {esg, infless, {"fluidfaas", "fluidfaas"}, ours()};
}

std::vector<System> ablations() {
  std::vector<System> all = systems();
  // As published, a slice belongs to its function for as long as that is kept alive.
  for (const char* name : {"esg", "infless"}) {
    System kept = named(system_named(name), "");
    kept.name = std::string(name) + ", exclusive keep-alive";
    for (WholeFunctionsOptions* whole : {&kept.options.esg.whole, &kept.options.infless.whole}) {
      whole->least_idle = std::chrono::hours(1);
      whole->envy = 0;
    }
    all.push_back(kept);
  }
  const System published = system_named("fluidfaas"), best = system_named("ours");
  System changed = named(published, "fluidfaas, no pipelines");
  changed.pipelines = false;
  all.push_back(changed);
  changed = named(published, "fluidfaas, no time sharing");
  changed.options.fluid_faas.time_sharing_below = 0;
  all.push_back(changed);
  changed = named(published, "fluidfaas, rank throughput");
  changed.rule = pipeline::RankRule::kThroughput;
  all.push_back(changed);
  changed = named(best, "ours, no pipelines");
  changed.pipelines = false;
  all.push_back(changed);
  changed = named(best, "ours, rank balance");
  changed.rule = pipeline::RankRule::kBalance;
  all.push_back(changed);
  return all;
}

System system_named(const std::string& name) {
  for (const System& system : systems()) {
    if (system.name == name) return system;
  }
  CHECK(false, "no system of this name");
  return {};
}

std::vector<Candidate> sweep(const std::string& name, bool quick) {
  std::vector<Candidate> candidates;
  const System base = system_named(name);
  if (name == kOurs) candidates = candidates_of_ours(base);
  if (name == "esg" || name == "infless") candidates = candidates_of_baseline(base);
  if (quick) {
    std::erase_if(candidates, [](const Candidate& one) {
      const WholeFunctionsOptions& whole = one.system.options.esg.whole;
      return whole.envy > 0 || whole.least_idle > seconds(10);
    });
  }
  for (Candidate& candidate : candidates) judge(candidate);
  std::ranges::stable_sort(
      candidates, [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  return candidates;
}

}  // namespace lambent::paper_fluidfaas
