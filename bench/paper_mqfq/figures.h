// Figures 4 and 6 to 9 of the paper, on the traces that stand for its own. Used by
// paper_mqfq_bench.
#pragma once

#include <string>

#include "bench/paper_mqfq/plan.h"

namespace lambent::paper_mqfq {

// Each prints its table, draws its picture if pictures are wanted, adds the goals that rest on it
// and gives its object.
std::string figure4(Bench& bench);    // memory policies (memory_policies.cc)
std::string figure6(Bench& bench);    // two GPUs
std::string figure7(Bench& bench);    // pool sizes
std::string figure8(Bench& bench);    // T, and uniform cost
std::string figure9a(Bench& bench);   // how long an empty flow stays active
std::string figure9bc(Bench& bench);  // D, fixed and by utilisation

}  // namespace lambent::paper_mqfq
