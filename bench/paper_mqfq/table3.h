// Table 3: every system on every trace at one site, beside the paper's row, with the geometric
// means over the traces and the goals that rest on them. Used by paper_mqfq_bench.
#pragma once

#include <string>

#include "bench/paper_mqfq/plan.h"

namespace lambent::paper_mqfq {

// Prints the table, adds its goals, gives the members "traces", "geo" and so on as one object.
std::string table3(Bench& bench);

}  // namespace lambent::paper_mqfq
