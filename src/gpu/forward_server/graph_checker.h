// GraphChecker: reads the nodes of a graph that one process sends, and checks that they name only
// what the process has: functions, events and memory. A resource of the process's thread; holds no
// state of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/forward_ring/graph_image.h"
#include "gpu/forward_server/address_ranges.h"
#include "gpu/forward_server/events.h"
#include "gpu/forward_server/executable_graph.h"
#include "gpu/forward_server/functions.h"
#include "gpu/forward_server/modules.h"

namespace lambent::forward_server {

class GraphChecker {
 public:
  // All outlive it.
  GraphChecker(const AddressRanges& ranges, Functions& functions, Modules& modules, Events& events)
      : ranges_(ranges), functions_(functions), modules_(modules), events_(events) {}

  // All nodes of an image, for a graph of this context. `wrong` is the node that is refused.
  CUresult read(const std::string& image, uint64_t context, std::vector<GraphNode>* nodes,
                uint64_t* wrong) const;
  // One of them.
  CUresult read_node(const forward_ring::GraphNodeView& view, uint64_t context,
                     GraphNode* node) const;

  // What a graph copies and fills, and what its kernels were told of, was the process's when it was
  // read; it may have been freed since, and be another's. False if it is: it must not be launched.
  bool may_launch(ExecutableGraph& graph) const;
  // The memory of all its nodes was looked at just now.
  void note_checked(ExecutableGraph& graph) const { graph.checked_at = ranges_.erasures(); }

 private:
  CUresult read_kernel(const forward_ring::GraphNodeView& view, uint64_t context,
                       GraphNode* node) const;
  bool owns_memory_of(const GraphNode& node) const;

  const AddressRanges& ranges_;
  Functions& functions_;
  Modules& modules_;
  Events& events_;
};

}  // namespace lambent::forward_server
