// Traces that somebody brings to the comparison: every DIR/own/NAME.csv with its
// NAME_functions.csv, in the format of exact times. Values; deterministic.
#pragma once

#include <string>
#include <vector>

#include "bench/paper_mqfq/workloads.h"

namespace lambent::paper_mqfq {

// All of them by name, judged, as they are: nothing is scaled. None if there is no such folder.
// Functions without an entry of the catalogue draw one. Errors name the file.
Result<std::vector<Workload>> open_own_traces(const std::string& folder,
                                              const workload::Catalogue& catalogue);

}  // namespace lambent::paper_mqfq
