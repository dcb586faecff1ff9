// What the soak program is asked to do, from its command line. A value.
#pragma once

#include <string>

#include "core/base/result.h"
#include "sim/simulator/faulty_world.h"

namespace lambent::soak {

struct Options {
  uint64_t first_seed = 1;
  uint64_t worlds = 0;  // 0: as many as fit into the time
  double seconds = 60;
  unsigned threads = 0;  // 0: one for each processor
  // Replay this one seed with its trace, and nothing else.
  bool replay = false;
  size_t trace = 40;
  std::array<bool, simulator::kFaults> without{};
  uint64_t most_arrivals = ~uint64_t{0};
};

// INVALID_ARGUMENT with what to write instead.
Result<Options> parse(int argc, char** argv);
std::string usage();

}  // namespace lambent::soak
