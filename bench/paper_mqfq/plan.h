// How much of everything one run of the bench does, and the goals that it judges. Values.
#pragma once

#include <string>
#include <vector>

#include "bench/paper_mqfq/run.h"

namespace lambent::paper_mqfq {

struct Plan {
  bool quick = false;
  uint64_t seeds = 10;
  uint64_t wide_seeds = 5;  // of surfaces and figures
  std::string traces;       // the folder; empty: generated
  std::string plots;        // the folder; empty: none
  Site site;                // where Table 3 is judged
};

// What is asked of a result and what came of it.
struct Goal {
  std::string name;
  std::string wanted;
  double value = 0;
  bool met = false;
  std::string decided_by;
  // Which of the claims it rests on (sensitivity.h); empty: none.
  std::string claim = {};
  // The guesses that move that claim by more than a fifth: it is illustrative then, and not met.
  std::vector<std::string> moved_by = {};
};
using Goals = std::vector<Goal>;

// What the experiments work on.
struct Bench {
  Plan plan;
  Workloads workloads;
  std::vector<System> best;  // of systems with a sweep, see open_best()
  Runs runs;
  Runs wide_runs;  // of surfaces and figures: fewer seeds
  Goals goals;
};

}  // namespace lambent::paper_mqfq
