// The generator of Azure-like workloads: four classes of arrivals, heavy-tailed popularity, a given
// offered load. Pure: the same options give the same workload on every machine.
#pragma once

#include <string>

#include "core/base/result.h"
#include "sim/workload/catalogue.h"
#include "sim/workload/trace.h"

namespace lambent::workload {

struct GeneratorOptions {
  size_t functions = 24;
  Duration duration = seconds(600);
  // Device seconds asked for per second, were every invocation warm and by itself.
  double offered_load = 0.5;
  // The k-th most popular function is invoked in proportion to k^-exponent.
  double popularity_exponent = 1.0;
  // How many functions are of each class; the shares need not add up to one.
  double periodic_share = 0.35;
  double bursty_share = 0.25;
  double sporadic_share = 0.2;
  double steady_share = 0.2;
  uint64_t seed = 1;
};

// Arrivals are drawn as they are asked for; nothing grows with their number. INVALID_ARGUMENT if an
// option makes no sense, RESOURCE_EXHAUSTED if it would need more arrivals than
// limits::kGeneratedArrivals. The offered load is met to within a tenth unless too few invocations
// fit; load_of() tells what came out.
Result<Trace> generate(const GeneratorOptions& options, const Catalogue& catalogue);

// Device seconds per second that these arrivals ask for.
double load_of(const std::vector<Arrival>& arrivals, const std::vector<double>& warm_s,
               Duration duration);

// The two files that open_trace() reads back: "t_ms,function" and "function,label,gpu_function".
std::string trace_csv(const std::vector<Arrival>& arrivals,
                      const std::vector<TraceFunction>& functions);
std::string functions_csv(const std::vector<TraceFunction>& functions);

}  // namespace lambent::workload
