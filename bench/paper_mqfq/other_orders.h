// Orders that the product does not have, as baselines with its pool: the shortest job first, and
// the earliest eligible virtual deadline first. Used by the experiment "unseen".
#pragma once

#include <memory>
#include <string>

#include "decide/scheduling/policy.h"

namespace lambent::paper_mqfq {

// - "sjf": the function whose runs took least on average goes first; one that never ran before all.
// - "sjf-set-up": the same with what its set-up takes now: a cold start where it has no sandbox.
// - "eevdf": each flow has a virtual time, charged what it took. Eligible are those not ahead of
//   the mean of the flows with work; of these the one goes first whose virtual time and next run
//   end first. One that was idle begins at the mean.
// None of them promises anything else; like FCFS they hold up the others while the first has no
// place. Null for any other name.
std::unique_ptr<scheduling::Policy> make_other_order(const std::string& name);

}  // namespace lambent::paper_mqfq
