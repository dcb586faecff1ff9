// What single options of ours and of the paper's are worth: memory that leaves as soon as its flow
// is throttled or inactive, and the grace period of functions in the pool. Used by
// paper_mqfq_bench.
#pragma once

#include <string>

#include "bench/paper_mqfq/plan.h"

namespace lambent::paper_mqfq {

// Each option over the same system without it, on every workload, over pools and slow-downs, and
// over less memory. Prints a table and gives the same as JSON.
std::string over_options(const Bench& bench);

}  // namespace lambent::paper_mqfq
