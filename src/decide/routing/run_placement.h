// Where a run of a workflow goes: as a whole to one node while all its steps fit there, and a step
// to another node only where its own cannot hold it; and where what only some nodes can serve goes.
// Pure; used by node/cluster on the loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decide/routing/policy.h"

namespace lambent::routing {

// One function that a run may call.
struct Step {
  uint64_t function = 0;  // as in RouteRequest
  Bytes memory;           // that it needs on a GPU, on each of several
  unsigned gpus = 0;      // without which no node can run it; 0: it can do without

  bool operator==(const Step&) const = default;
};

// Whether the node has what the step takes of GPUs, whatever is on them.
bool holds(const NodeView& view, NodeIndex node, const Step& step);

// As Policy::choose(), of a run with these steps. Of nodes that take work only those count on which
// the most steps fit: all of them, where there is such a node. Among these the policy sees a node
// as warm as the coldest step there, of the steps that are warm on any node; and what the steps
// take together is the memory that has to be free. Nothing if no node takes work.
std::optional<Route> place_run(const Policy& policy, RouteRequest request,
                               const std::vector<Step>& steps, const HashRing& ring,
                               const NodeView& view);

// As Policy::choose(), among the nodes of which `may` is true, which has all of the view.
std::optional<Route> place_among(const Policy& policy, RouteRequest request,
                                 const std::vector<bool>& may, const HashRing& ring,
                                 const NodeView& view);

}  // namespace lambent::routing
