// The surface over D, pool and T: every policy at every point on the nine traces, the point nearest
// to the paper's own column, and each policy at its own best point. Used by paper_mqfq_bench.
#pragma once

#include <string>

#include "bench/paper_mqfq/plan.h"

namespace lambent::paper_mqfq {

struct SurfaceAxes {
  std::vector<unsigned> tokens, pools;
  std::vector<double> over_runs_s;
};
SurfaceAxes axes_of(const Plan& plan);

// Prints tables and gives the object; adds the goals at the point nearest to the paper.
std::string surface(Bench& bench);

}  // namespace lambent::paper_mqfq
