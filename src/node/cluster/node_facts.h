// NodeFacts: what a node tells of itself, and what is known here of a function that is to run
// somewhere. Values; made by main, used by ClusterNode and its parts on the loop thread.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/domain/function.h"
#include "decide/routing/run_placement.h"
#include "node/cluster/node_report.h"

namespace lambent::cluster {

// What an invocation takes of a node's GPUs.
struct GpuRequest {
  Bytes memory;       // of each
  unsigned gpus = 0;  // without which no node can run it
};

// What the node tells of itself, and asks about its functions. All outlive it.
struct NodeFacts {
  std::function<NodeReport()> report;
  // NodeReport::load as it is now: asked for each request.
  std::function<uint32_t()> load;
  // A function or version that is known here, by its qualified name.
  struct Known {
    FunctionName record;                    // of an alias, its first version's
    GpuRequest needs;                       // of one invocation
    std::vector<routing::Step> steps = {};  // of a workflow's run
    bool is_pipeline = false;               // which only some nodes can serve, as they say
  };
  std::function<std::optional<Known>(const FunctionName&)> find;
  // Told of each report of another node; may be empty.
  std::function<void(const NodeReport&)> heard = {};
  // Told when volumes, which the home keeps, were changed through this node; may be empty.
  std::function<void()> volumes_changed = {};
};

}  // namespace lambent::cluster
