// RunStatistics: what a run of a workload came to - latencies overall and by function, how even the
// functions fared, how many starts were cold. Pure, streaming, bounded memory; one thread. Used by
// replay, the report and the simulator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/domain/invocation.h"
#include "sim/workload/quantiles.h"

namespace lambent::workload {

// One invocation's outcome in modelled seconds.
struct Sample {
  uint32_t function = 0;
  double latency_s = 0;  // from the time it was meant to be sent
  double queue_s = 0;
  double cold_s = 0;    // starting the sandbox and the runtime
  double run_s = 0;     // with its memory in place
  double memory_s = 0;  // of the run, before its memory was in place
  StartClass start = StartClass::kWarm;
  bool succeeded = true;
  std::optional<bool> in_time;  // kept its function's SLO; nothing if that has none
};

struct FunctionSummary {
  std::string name;
  uint64_t count = 0;  // that succeeded
  uint64_t failed = 0;
  double mean_s = 0;
  double p50_s = 0;
  double p99_s = 0;
  double warm_s = 0;  // by itself on a warm device; 0 if unknown
  double cold_ratio = 0;
  double queue_mean_s = 0;
  double cold_mean_s = 0;
  double run_mean_s = 0;
  double variance = 0;                  // of its latencies, s2
  std::optional<double> slo_hit_ratio;  // nothing without an SLO
};

// Latencies are over the invocations that succeeded; the failed ones are counted beside them.
struct Summary {
  uint64_t count = 0;
  uint64_t failed = 0;
  double mean_s = 0;
  double p50_s = 0;
  double p90_s = 0;
  double p99_s = 0;
  double max_s = 0;
  // The variance, over the functions that had any success, of their mean latencies.
  double variance_between_functions = 0;
  // The mean, over the same, of the variance of each one's own latencies.
  double variance_within_functions = 0;
  double cold_ratio = 0;      // a sandbox was started
  double gpu_cold_ratio = 0;  // only the device memory was cold
  double queue_mean_s = 0;
  double cold_mean_s = 0;
  double run_mean_s = 0;
  double memory_mean_s = 0;
  // The mean over all invocations of latency / warm time of the function; nothing unless every
  // function's warm time is known.
  std::optional<double> normalised_latency;
  // Run time of all invocations over elapsed time and devices: the upper bound of how busy the
  // devices were, since a handler also runs on the CPU. Nothing without an elapsed time.
  std::optional<double> busy_ratio;
  // Of the invocations of functions with an SLO, the share that kept it; one that failed did not.
  std::optional<double> slo_hit_ratio;
  // What no order of these calls could have a lower mean than (least_latency.h). Only of simulated
  // runs in which all succeeded and GPUs did all the work.
  std::optional<double> least_mean_s;
  std::vector<FunctionSummary> functions;
};

class RunStatistics {
 public:
  // `warm_s` may be shorter than `names`; a missing or zero time is unknown.
  RunStatistics(std::vector<std::string> names, std::vector<double> warm_s);

  // sample.function is an index into the names.
  void add(const Sample& sample);
  // `elapsed_s` zero: unknown.
  Summary summary(double elapsed_s, unsigned devices) const;

 private:
  // There may be thousands of functions: each keeps few numbers as they are.
  static constexpr size_t kExactPerFunction = 1'024;

  struct SloHits {
    uint64_t in_time = 0, late = 0;
    std::optional<double> ratio() const;
  };
  struct PerFunction {
    Mean latency;
    Moments latencies;
    Quantiles quantiles{kExactPerFunction};
    Mean queue;
    Mean cold;
    Mean run;
    uint64_t failed = 0;
    uint64_t cold_starts = 0;
    SloHits slo;
  };

  std::vector<std::string> names_;
  std::vector<double> warm_s_;
  std::vector<PerFunction> functions_;
  Quantiles quantiles_;
  Mean latency_;
  Mean queue_;
  Mean cold_;
  Mean run_;
  Mean memory_;
  Mean normalised_;
  double busy_s_ = 0;
  uint64_t failed_ = 0;
  uint64_t cold_starts_ = 0;
  uint64_t gpu_cold_starts_ = 0;
  SloHits slo_;
};

}  // namespace lambent::workload
