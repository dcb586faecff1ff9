// How many driver calls the CUDA programs of tests/programs make, by what the shim does with them,
// and how long they run: counted by the emulated driver's own trace, without the shim. For
// shim_bench.
#pragma once

#include <string>
#include <vector>

namespace lambent::bench {

struct ProgramCalls {
  std::string name;
  double runtime_ns = 0;  // the fastest of three runs, from start to end of the process
  double forwarded = 0;
  double gated = 0;
  double allocations = 0;  // and what gives them back
  double others = 0;       // mostly cuGetProcAddress
};

// What one call costs more with the shim, on average.
struct ExtraCosts {
  double forwarded_ns = 0;
  double gated_ns = 0;
  double look_up_ns = 0;
  double allocation_ns = 0;
};

// Runs each program of the folder; those that fail are left out, with a line to standard error.
std::vector<ProgramCalls> count_programs(const std::string& folder,
                                         const std::string& driver_folder);

// A JSON object from program to per cent; "null" if there is no program.
std::string share_of_runtime(const std::vector<ProgramCalls>& programs, const ExtraCosts& extra);

}  // namespace lambent::bench
