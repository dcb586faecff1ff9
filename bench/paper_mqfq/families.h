// Workloads from public traces beside mqfq24: functions as they were recorded, some of them drawn,
// become functions of the catalogue, and their arrivals are scaled to a load. Values;
// deterministic; what each trace needed is said in mappings().
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/paper_mqfq/workloads.h"

namespace lambent::paper_mqfq {

// All that can be made from the folders that DIR has; those it lacks are left out. Errors name the
// file.
Result<std::vector<Workload>> open_families(const std::string& folder,
                                            const workload::Catalogue& catalogue, bool quick);
// Days of Azure 2019 at their own pace: of each folder that DIR has, functions that are called at
// most twice a minute. azure2019_8h is for training, azure2019_day is judged, and so are two hours
// of the generator.
Result<std::vector<Workload>> open_days(const std::string& folder,
                                        const workload::Catalogue& catalogue, bool quick);
// By family: how its functions became the catalogue's, and its arrivals ours.
const std::vector<std::pair<std::string, std::string>>& mappings();

}  // namespace lambent::paper_mqfq
