// When requests come: bursty, periodic and sporadic, from counts per minute. Values.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"

namespace lambent::paper_streambox {

struct Load {
  std::string name;                // "bursty", "periodic", "sporadic"
  std::vector<double> per_minute;  // requests
};

// DIR/streambox/NAME-load.txt, one number a line.
Result<std::vector<Load>> read_loads(const std::string& folder);
// Our own of the same three kinds, with about the same means, peaks and idle minutes.
std::vector<Load> generated_loads(uint64_t seed, size_t minutes);

// Minutes first to first + count of the load.
Load part_of(const Load& load, size_t first, size_t count);

// The moments of arrival in seconds, ascending: `scale` times as many a minute (a fraction by
// chance), each at a moment of its own, uniform in the minute.
std::vector<double> arrivals_of(const Load& load, double scale, uint64_t seed);

}  // namespace lambent::paper_streambox
