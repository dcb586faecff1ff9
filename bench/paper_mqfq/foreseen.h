// What is gained by what is foreseen, and how far the default is from one that knows all calls.
// Used by paper_mqfq_bench.
#pragma once

#include <string>
#include <vector>

#include "bench/paper_mqfq/plan.h"

namespace lambent::paper_mqfq {

// Every workload, and `days` (open_days), at four pools and two slow-downs, once. Prints the mean
// latency of what foresees over that of ours without, and of these over the clairvoyant's, by
// family, judged and training ones apart; gives the same as JSON.
std::string over_foresight(Bench& bench, const std::vector<Workload>& days);

}  // namespace lambent::paper_mqfq
