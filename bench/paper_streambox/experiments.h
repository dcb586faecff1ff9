// What paper-streambox measures in the model: settings and their sweep, the comparison, ablations,
// tenants. Functions over values; one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/paper_streambox/loads.h"
#include "bench/paper_streambox/setup.h"

namespace lambent::paper_streambox {

// How long ours keeps weights that nobody uses, while nobody else wants their room.
enum class KeptWeights : uint8_t {
  kMinute,   // 60 s
  kRuntime,  // as long as their runtime, as a worker does
};
const char* name_of(KeptWeights kept);  // "minute", "runtime"
void keep_weights(Setup& setup, KeptWeights kept);

// How much is run.
struct Plan {
  bool quick = false;
  unsigned seeds = 1;
  unsigned first_part = 0;  // of the loads, which each seed has a part of its own of
  uint64_t seed = 1;        // of chance, for the first part
  std::vector<double> scales = {0.3, 1, 3, 10};
  bool eager = false;
  KeptWeights weights = KeptWeights::kMinute;
  std::vector<System> systems = {std::begin(kSystems), std::end(kSystems)};
  double light = 0.3;  // where latencies and memory are compared
  double busy = 1;     // where late answers are counted, and the ablations
  size_t bursty_minutes = 4, periodic_minutes = 30, sporadic_minutes = 150;

  size_t minutes_of(const std::string& load) const {
    if (load == "bursty") return bursty_minutes;
    return load == "periodic" ? periodic_minutes : sporadic_minutes;
  }
};

// The system as the sweep found it best: of the settings within a hundredth of the most answers in
// time, the one with the least memory. Eager: processes as the paper describes them, another one
// for every call that finds none idle, each for one call at a time.
Setup best_setup(System system, bool eager = false);

struct Candidate {
  std::string name;
  Setup setup;
  double in_time_share = 0;  // mean over workflows, loads and scales
  double memory_gb = 0;
};
// All settings of the system on these loads, the best first.
std::vector<Candidate> sweep(const Plan& plan, const Models& models, const Constants& constants,
                             const std::vector<Load>& loads, System system);

// One workflow under one load.
struct Cell {
  std::string workflow, load;
  // By system.
  std::map<System, double> best_goodput;           // over the scales, late requests given up
  std::map<System, std::vector<double>> goodputs;  // by scale
  std::map<System, RunResult> light, busy;         // nothing given up; means over seeds
};
std::vector<Cell> compare(const Plan& plan, const Models& models, const Constants& constants,
                          const std::vector<Load>& loads,
                          const std::vector<Workflow>& workflows = workflows());

// Ours over each baseline that was run; geometric means over cells.
struct Ratios {
  double memory_reduction_pct = 0;
  double throughput_ratio = 0;
  double p50_ratio = 0;  // the baseline's over ours
  double p99_ratio = 0;
  double mean_ratio = 0;  // the same of mean latencies, where cold starts show
};
std::map<System, Ratios> ratios_of(const std::vector<Cell>& cells);
// Mean memory under the light load over that of Stream-only, each system's geometric mean over
// cells.
std::map<System, double> memory_over_stream_only(const std::vector<Cell>& cells);

struct Variant {
  std::string name;
  RunResult result;
};
std::vector<Variant> pool_ablation(const Plan& plan, const Models& models,
                                   const Constants& constants, const Load& load);
std::vector<Variant> store_ablation(const Plan& plan, const Models& models,
                                    const Constants& constants, const Load& load);
std::vector<Variant> loading_ablation(const Plan& plan, const Models& models,
                                      const Constants& constants, const Load& load);
std::vector<Variant> weights_ablation(const Plan& plan, const Models& models,
                                      const Constants& constants, const Load& load);
// Traffic of so many tenants on one device, by system.
std::vector<Variant> share_a_device(const Plan& plan, const Models& models,
                                    const Constants& constants, const Load& load, unsigned tenants);

}  // namespace lambent::paper_streambox
