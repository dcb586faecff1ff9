// What each input decides: every claim of Table 3 with the input halved and doubled, and in other
// worlds. Used by paper_mqfq_bench.
#pragma once

#include <string>

#include "bench/paper_mqfq/plan.h"

namespace lambent::paper_mqfq {

// Prints a table, notes at the goals what moves them, and gives {"claims", "inputs", "worlds"}.
std::string sensitivity(Bench& bench);

}  // namespace lambent::paper_mqfq
