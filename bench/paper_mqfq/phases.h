// What comes of sharing a device where invocations are on the host, on the link and in kernels by
// turns, instead of slowing each other down by a constant. Used by paper_mqfq_bench.
#pragma once

#include <string>

#include "bench/paper_mqfq/plan.h"

namespace lambent::paper_mqfq {

// By turns and side by side (MPS), with the catalogue's kernel times and with half and twice as
// much: Figures 9b and 9c, D by utilisation, what D above 1 gains each system, and ours beside the
// baselines with the same pool. Prints tables and gives the same as JSON.
std::string over_phases(Bench& bench);

}  // namespace lambent::paper_mqfq
