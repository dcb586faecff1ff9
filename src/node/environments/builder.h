// build_environment(): makes one environment by uv, behind walls, in a folder of its own, and moves
// it to its place when it is whole. Blocks; used by lambent-environment.
#pragma once

#include <functional>
#include <string>

#include "core/base/result.h"
#include "node/environments/build_order.h"
#include "node/environments/confined_program.h"

namespace lambent::environments {

// Where things lie in the folder of all environments.
inline constexpr char kReadyFolder[] = "ready";  // one folder for each key
inline constexpr char kWorkFolder[] = "work";    // builds under way, and uv's cache
inline constexpr char kReportFile[] = "report.json";
inline constexpr char kTreeFolder[] = "python";  // in ready/KEY: what sandboxes see

// `tell` gets what happens, in words. INVALID_ARGUMENT: the requirements cannot be met.
// UNAVAILABLE: the index did not answer. RESOURCE_EXHAUSTED, STORAGE_FULL, DEADLINE_EXCEEDED.
Result<BuildReport> build_environment(const Walls& walls, const BuildOrder& order,
                                      const std::function<void(std::string_view)>& tell);

// Removes environments and, if `cache`, what is kept of downloads. Blocks.
void remove_environments(const std::string& folder, const std::vector<std::string>& keys,
                         bool cache);

}  // namespace lambent::environments
