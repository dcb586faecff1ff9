// What paper-fluidfaas measures in the simulator: a system on a layout under a load, and settings
// of systems with their sweep. Functions over values; one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/paper_fluidfaas/layouts.h"
#include "bench/paper_fluidfaas/loads.h"
#include "decide/slice_scheduling/make_policy.h"
#include "sim/slice_simulator/run.h"

namespace lambent::paper_fluidfaas {

// Who schedules, with what settings.
struct System {
  std::string name;    // in tables
  std::string policy;  // of make_slice_policy
  pipeline::RankRule rule = pipeline::RankRule::kBalance;
  bool pipelines = true;  // otherwise functions have no partition but the whole
  slice_scheduling::SlicePolicyOptions options;
};

// What settings are for: a size on the paper's layouts, or many functions on a few slices.
enum class Scene { kLight, kMedium, kHeavy, kCrowded };
const char* name_of(Scene scene);  // "crowded"
Scene scene_of(Size size);

// With the settings that the sweep of that scene found best: ESG, INFless, FluidFaaS, ours.
std::vector<System> systems(Scene scene);
System system_named(const std::string& name, Scene scene);
// Each of them with its defaults, without this or that, and the baselines with slices that are
// theirs for as long as they are kept alive.
std::vector<System> ablations(Scene scene);

struct Figures {
  double offered_per_s = 0;
  double throughput_per_s = 0;  // answers while requests came, after the first warm_s
  double bound_per_s = 0;       // of the mix that was answered
  double placed_per_s = 0;      // of that mix too: placed_bound_of()
  double hit_pct = 0;           // of all requests: within their SLO
  std::vector<double> hit_pct_by_application;
  double p50_s = 0, p95_s = 0, p99_s = 0, mean_s = 0;
  double queue_s = 0, load_s = 0, execution_s = 0, transfer_s = 0;  // means
  double makespan_s = 0;                  // from the first arrival to the last answer
  double mig_time_s = 0, gpu_time_s = 0;  // working
  double mig_held_s = 0, gpu_held_s = 0;  // with somebody's weights
  // Of the multiprocessors of all slices while requests came, after the first warm_s: at work; with
  // an instance that is on its way; with one that is there and waits; with none.
  double working_pct = 0, coming_pct = 0, waiting_pct = 0, free_pct = 0;
  double pipeline_pct = 0;       // of jobs
  double starts = 0, loads = 0;  // loads: of instances that had been moved out
  double copied_gb = 0;          // of weights and of memory that moved
  double unanswered = 0;         // or with an error
  double impossible = 0;

  double share_of_bound() const { return bound_per_s > 0 ? throughput_per_s / bound_per_s : 0; }
  double share_of_placed() const { return placed_per_s > 0 ? throughput_per_s / placed_per_s : 0; }
};

struct Setting {
  const Layout* layout = nullptr;
  unsigned nodes = 2;
  Size size = Size::kLarge;
  // 0: the applications that exist in this size, once each; otherwise so many functions, of App 0
  // to 2 in turn.
  size_t functions = 0;
  Constants constants;
  uint64_t seed = 1;
  // The load grows for so long, and nothing of it is counted: instances are there then.
  double warm_s = 40;
  double drain_s = 60;
};
// Figures are of the load itself: it is run after a ramp of warm_s.
Figures measure(const System& system, const Setting& setting, const Load& load);

// The mean of each figure.
Figures mean_of(const std::vector<Figures>& all);
// Half the width of the 95 % confidence interval of a mean (Student's t); 0 of one value.
double half_width(const std::vector<double>& values);

// Requests a second of the load's mix that whole functions on one slice can give at most, and
// components on any.
double bound_of(const Setting& setting, const std::vector<double>& mix, bool whole);
// The same by real placements: an instance has a slice for each of its stage processes, or, with
// replicas, up to `most_slices`, and gives what its slowest stage process does; of how many there
// are of each, a linear program decides, fractions allowed. Left out are hand-overs, and that an
// instance is on one node.
double placed_bound_of(const Setting& setting, const std::vector<double>& mix,
                       size_t most_slices = 0);
// How many of each application of that size come a second.
std::vector<double> mix_of(const Load& load, size_t applications);

struct Candidate {
  std::string name;
  System system;
  double score = 0;  // see sweep.cc
  double hit_pct = 0, throughput_share = 0;
};
// Settings of one of systems() for a scene, on generated loads that the comparison does not use,
// the best first. Quick: a few of them.
std::vector<Candidate> sweep(const std::string& system, Scene scene, bool quick);

}  // namespace lambent::paper_fluidfaas
