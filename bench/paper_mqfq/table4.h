// Table 4: the host's processors alone, one and two GPUs, and both kinds together by the paper's
// rule and by ours. Used by paper_mqfq_bench.
#pragma once

#include <string>

#include "bench/paper_mqfq/plan.h"

namespace lambent::paper_mqfq {

// Prints the table, draws it if pictures are wanted, gives its object.
std::string table4(Bench& bench);

}  // namespace lambent::paper_mqfq
