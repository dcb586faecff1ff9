// The graph in a workflow's package. Blocks for the disk: used on the file thread, and when the
// worker starts.
#pragma once

#include <memory>
#include <string>

#include "core/base/result.h"
#include "decide/workflow/graph.h"

namespace lambent::worker {

// Shared, since runs go on with the graph that they began with. INVALID_ARGUMENT names the place in
// the graph; NOT_FOUND: the package has no such file.
Result<std::shared_ptr<const workflow::Workflow>> read_workflow(const std::string& folder,
                                                                const std::string& graph);

}  // namespace lambent::worker
