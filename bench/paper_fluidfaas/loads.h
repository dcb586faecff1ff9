// When requests of the four applications come: the traces' arrivals, our own, and both scaled.
// Values; deterministic.
#pragma once

#include <string>
#include <vector>

#include "bench/paper_fluidfaas/applications.h"
#include "core/base/result.h"
#include "sim/slice_simulator/model.h"

namespace lambent::paper_fluidfaas {

struct Load {
  std::string name;
  std::vector<slice_simulator::Arrival> arrivals;  // of functions 1 to 4, ascending
};

// DIR/fluidfaas_arrivals/{light,medium,heavy}.csv.gz: t_ms,app.
Result<Load> read_load(const std::string& folder, Size size);
// Two bursty applications and two steady ones at that rate.
Load generated_load(Size size, uint64_t seed, double length_s = 300);
// So many functions that come in visits: each of 1 to 5 requests within 0.2 to 0.6 s of each other,
// visits of a function `gap_s` apart in the mean, by chance.
Load visits(size_t functions, double gap_s, double length_s, uint64_t seed);
// All four together, a second: 1000/53.6, twice, four times as many.
double rate_of(Size size);

// The same after `ramp_s` in which the rate grows evenly from nothing: the first arrivals again,
// thinned out.
Load ramped(const Load& load, double ramp_s, uint64_t seed);

// `factor` times as many: each arrival so many times (a fraction by chance), the copies up to half
// a second before or after it; up to `length_s`; of these applications alone.
Load scaled(const Load& load, double factor, double length_s, size_t applications, uint64_t seed);

}  // namespace lambent::paper_fluidfaas
