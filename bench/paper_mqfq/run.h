// One workload under one system at one site, simulated, and the mean over seeds of what came of
// it. Pure but for the memory of what was run already; used by every experiment of paper-mqfq.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/paper_mqfq/constants.h"
#include "bench/paper_mqfq/systems.h"
#include "bench/paper_mqfq/workloads.h"
#include "sim/simulator/workload_run.h"
#include "sim/sweep/figures.h"

namespace lambent::paper_mqfq {

struct Figures {
  double mean_s = 0, p50_s = 0, p99_s = 0;
  double variance = 0;        // between the functions' means, s2
  double slowdown = 0;        // latency over warm time, mean of the functions' means
  double worst_slowdown = 0;  // of a function
  double normalised = 0;      // latency over warm time, mean over invocations: the paper's
  // Of two functions that both had work throughout a window of 30 s, how much more device time the
  // one got: the most in each window, and the mean over windows. 0 if there is no such window.
  double service_gap_s = 0;
  double cold = 0, gpu_cold = 0;  // shares of the invocations
  double on_host = 0;             // share of the invocations that ran as CPU variants
  double utilisation = 0;
  double execution = 0;  // time after the queue over warm time, mean over invocations
  double run_s = 0;      // mean time at work on the device
  double least_s = 0;    // the mean that no order can be below (LeastLatency)
  double failed = 0;     // invocations
};
struct Figure {
  const char* name;
  double Figures::*of;
};
const std::vector<Figure>& figures();

// The policy that a system names: the product's, or one of other_orders.h. CHECKed.
std::unique_ptr<scheduling::Policy> policy_of(const System& system);
// How a system is simulated at a site.
simulator::WorkloadRunOptions options_of(const System& system, const Site& site,
                                         const Constants& constants, uint64_t seed);

// Simulates once. The same arguments give the same figures on every machine.
Figures run_once(const Workload& workload, const System& system, const Site& site,
                 const Constants& constants, uint64_t seed);

// Runs, over seeds 1 to `seeds`, and remembers.
class Runs {
 public:
  explicit Runs(uint64_t seeds) : seeds_(seeds) {}

  uint64_t seeds() const { return seeds_; }
  size_t count() const { return count_; }
  // With the constants as they are; names stand for what they name. By seed.
  const std::vector<Figures>& of(const Workload& workload, const System& system, const Site& site);
  // With others; not remembered.
  std::vector<Figures> of(const Workload& workload, const System& system, const Site& site,
                          const Constants& constants);

 private:
  uint64_t seeds_;
  size_t count_ = 0;
  std::map<std::string, std::vector<Figures>> known_;
};

sweep::Estimate estimate(const std::vector<Figures>& figures, double Figures::*of);
// The ratio of the first's to the second's, seed by seed.
std::vector<double> ratios(const std::vector<Figures>& one, const std::vector<Figures>& other,
                           double Figures::*of);
// Over traces: for each seed the geometric mean of that seed's ratios.
std::vector<double> geometric_means(const std::vector<std::vector<double>>& by_trace);

// {"mean":..,"half_width":..}: of the 95 % confidence interval; half_width null for one sample.
std::string json_of(const sweep::Estimate& estimate);
// The same of every figure, by name, as [mean, half_width].
std::string json_of(const std::vector<Figures>& figures);

}  // namespace lambent::paper_mqfq
