// What ours is worth beside the baselines with the same pool, over how much runs slow each other
// down, D and the pool, on every workload. Used by paper_mqfq_bench.
#pragma once

#include <string>

#include "bench/paper_mqfq/plan.h"

namespace lambent::paper_mqfq {

// Every cell of six slow-downs, D 1 to 4 and five pools for each workload, once; a part of them in
// a quick run. Prints what ours takes of each baseline's mean latency, by each of these and by
// family, judged workloads and others apart, and adds goals: no more, whatever it is looked at by.
// Gives the same as JSON.
std::string over_contention(Bench& bench);

}  // namespace lambent::paper_mqfq
