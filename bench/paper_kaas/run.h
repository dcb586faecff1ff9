// One simulated run of the paper's experiment: clients as fast as they can (offline), or a stream
// of requests at a share of what that gave (online). Pure but for open_gaps(); used by the bench
// paper-kaas.
#pragma once

#include <array>

#include "bench/paper_kaas/model.h"

namespace lambent::paper_kaas {

struct RunOptions {
  uint64_t seed = 1;
  double requests = 4000;  // about so many are counted
  double at_least_s = 10;
  // Before them, not counted: until every function has been everywhere and memory is full.
  double warm_up_s = 60;
  // Requests a second; zero: offline.
  double rate = 0;
  // Gaps between requests in place of a Poisson stream's, scaled to the rate, each seed from a
  // place of its own on; none: Poisson. Outlives the run.
  const std::vector<double>* gaps = nullptr;
};

// One gap a line, none negative, their mean scaled to 1. Errors name the file.
Result<std::vector<double>> open_gaps(const std::string& path);

// Of requests, by which the distribution of their latencies is told.
inline constexpr std::array kShares = {0.01, 0.05, 0.1, 0.2, 0.3,  0.4,  0.5,
                                       0.6,  0.7,  0.8, 0.9, 0.95, 0.99, 0.999};

struct RunResult {
  double throughput = 0;  // answers a second
  // Of a request, its steps on the host included.
  double mean_s = 0, p50_s = 0, p90_s = 0, p99_s = 0;
  std::array<double, kShares.size()> distribution_s{};  // the latencies that such shares are below
  double cold_share = 0;      // a process or an instance was started for it
  double gpu_cold_share = 0;  // its constants had to come back
};

RunResult run_once(const Workload& workload, const Constants& constants, const Setup& setup,
                   const RunOptions& options);

}  // namespace lambent::paper_kaas
