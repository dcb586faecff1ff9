// The sweep that chooses each baseline's settings, on the training workloads alone.
#pragma once

#include <string>

#include "bench/paper_mqfq/plan.h"

namespace lambent::paper_mqfq {

// Prints every candidate by system, the best first: the geometric mean of its mean latency over the
// training workloads. Gives the text of the file that open_best() reads.
std::string sweep_of_all(Bench& bench);

}  // namespace lambent::paper_mqfq
