// The default beside other orders with the same pool on workloads of families that the evaluation
// of the paper does not have (unseen_families.h): where it loses, in what, and by how much. Part of
// paper-mqfq.
#pragma once

#include <string>

#include "bench/paper_mqfq/plan.h"
#include "bench/paper_mqfq/unseen_families.h"

namespace lambent::paper_mqfq {

struct UnseenFigures {
  double mean_s = 0, p50_s = 0, p99_s = 0;
  // Of the functions' mean latencies over what they take by themselves: the greatest.
  double worst_slowdown = 0;
  double cold = 0;  // share of the invocations
  uint64_t invocations = 0, failed = 0;
  uint64_t given_up = 0;                   // tries after which a client called again
  uint64_t started_ahead = 0, wasted = 0;  // sandboxes for calls that were expected
};
// The same arguments give the same figures on every machine.
UnseenFigures run_unseen(const UnseenWorkload& workload, const System& system,
                         const UnseenSite& site);

// Nothing was chosen on workloads of this seed and those after it; decision 0162 was on 1 to 4.
constexpr uint64_t kJudgedUnseenSeed = 101;

// `seed`: of the first of the workloads; 0: kJudgedUnseenSeed. Prints tables; the result is JSON.
std::string over_unseen(const Plan& plan, const workload::Catalogue& catalogue, uint64_t seed);

}  // namespace lambent::paper_mqfq
