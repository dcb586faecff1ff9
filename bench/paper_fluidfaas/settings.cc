// The systems at their best settings by scene, as --sweep found them on generated loads (of ours,
// spare_ratio was chosen on others: docs/decisions/0038), and variants of them.
#include <algorithm>

#include "bench/paper_fluidfaas/experiments.h"
#include "bench/paper_fluidfaas/plan.h"
#include "core/base/check.h"

namespace lambent::paper_fluidfaas {

using slice_scheduling::WholeFunctionsOptions;

namespace {

System with_defaults(const std::string& name) {
  System system{name, name == kOurs ? "slo" : name};
  if (name == "esg" || name == "infless") system.pipelines = false;
  if (name == kOurs) system.rule = pipeline::RankRule::kThroughput;
  return system;
}

System named(System system, std::string name) {
  system.name = std::move(name);
  return system;
}

// Of the loads alike: a slice is its function's until that did not use it for 10 s and another one
// wants it. Crowded: until another one wants it.
WholeFunctionsOptions whole_functions(Scene scene, double memory_s) {
  WholeFunctionsOptions options;
  options.least_idle = scene == Scene::kCrowded ? milliseconds(100) : seconds(10);
  options.envy = scene == Scene::kCrowded ? 1.5 : 0;
  options.memory = from_seconds(memory_s);
  return options;
}

double headroom_of(Scene scene) {
  static constexpr double kHeadroom[] = {10, 20, 2, 2};
  return kHeadroom[static_cast<size_t>(scene)];
}

System esg(Scene scene) {
  System system = with_defaults("esg");
  system.options.esg.whole = whole_functions(scene, 10);
  system.options.esg.headroom = headroom_of(scene);
  return system;
}

System infless(Scene scene) {
  System system = with_defaults("infless");
  system.options.infless.whole = whole_functions(scene, 3);
  system.options.infless.headroom = headroom_of(scene);
  return system;
}

System published() {
  System system = with_defaults("fluidfaas");
  system.options.fluid_faas.time_sharing_below = 0.1;
  system.options.fluid_faas.shrink_sharing_below = 0.05;
  return system;
}

System ours(Scene scene) {
  System system = with_defaults(kOurs);
  if (scene == Scene::kCrowded) return system;  // all candidates are alike there
  system.options.slo.spare_ratio = 2.5;
  system.options.slo.most_busy = 0.7;
  system.options.slo.late_turn = 16;
  return system;
}

}  // namespace

const char* name_of(Scene scene) {
  static constexpr const char* kNames[] = {"light", "medium", "heavy", "crowded"};
  return kNames[static_cast<size_t>(scene)];
}

Scene scene_of(Size size) { return static_cast<Scene>(size); }

std::vector<System> systems(Scene scene) {
  return {esg(scene), infless(scene), published(), ours(scene)};
}

System system_named(const std::string& name, Scene scene) {
  for (const System& system : systems(scene)) {
    if (system.name == name) return system;
  }
  CHECK(false, "no system of this name");
  return {};
}

std::vector<System> ablations(Scene scene) {
  std::vector<System> all = systems(scene);
  for (const char* name : {"esg", "infless", "fluidfaas", "ours"}) {
    all.push_back(named(with_defaults(name), std::string(name) + ", defaults"));
  }
  // As published, a slice belongs to its function for as long as that is kept alive.
  for (const char* name : {"esg", "infless"}) {
    System kept = named(system_named(name, scene), std::string(name) + ", exclusive keep-alive");
    for (WholeFunctionsOptions* whole : {&kept.options.esg.whole, &kept.options.infless.whole}) {
      whole->least_idle = std::chrono::hours(1);
      whole->envy = 0;
    }
    all.push_back(kept);
  }
  const System published = system_named("fluidfaas", scene), best = system_named(kOurs, scene);
  System changed = named(published, "fluidfaas, no pipelines");
  changed.pipelines = false;
  all.push_back(changed);
  changed = named(published, "fluidfaas, no time sharing");
  changed.options.fluid_faas.time_sharing_below = 0;
  all.push_back(changed);
  changed = named(best, "ours, no pipelines");
  changed.pipelines = false;
  all.push_back(changed);
  changed = named(best, "ours, no replicas");
  changed.options.slo.most_slices = 0;
  all.push_back(changed);
  changed = named(best, "ours, rank balance");
  changed.rule = pipeline::RankRule::kBalance;
  all.push_back(changed);
  return all;
}

}  // namespace lambent::paper_fluidfaas
