// How much of everything one run of the bench does, and the goals that it judges. Values.
#pragma once

#include <string>
#include <vector>

#include "bench/paper_mqfq/run.h"

namespace lambent::paper_mqfq {

struct Plan {
  bool quick = false;
  uint64_t seeds = 10;
  std::string traces;  // the folder; empty: generated
  std::string plots;   // the folder; empty: none
  Site site;           // where Table 3 is judged
};

// What is asked of a result and what came of it.
struct Goal {
  std::string name;
  std::string wanted;
  double value = 0;
  bool met = false;
  std::string decided_by;
};
using Goals = std::vector<Goal>;

// What the experiments work on.
struct Bench {
  Plan plan;
  Workloads workloads;
  std::vector<System> best;  // of systems with a sweep, see open_best()
  Runs runs;
  Goals goals;
};

}  // namespace lambent::paper_mqfq
