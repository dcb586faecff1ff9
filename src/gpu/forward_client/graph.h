// Graph: what a program builds, node by node or by capture: data of only this process, which goes
// to the executor only when it is made executable. All of it under the StateLock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda_abi/driver_types.h"
#include "gpu/forward_client/state_lock.h"
#include "gpu/forward_client/table.h"
#include "gpu/forward_ring/graph_image.h"

namespace lambent::forward_client {

struct Graph;

struct GraphNode {
  uint64_t number = 0;    // 0: it has no handle, for it is of an executable graph's own copy
  uint64_t original = 0;  // the number of the node that it is a copy of, or its own
  Graph* graph = nullptr;
  // What it does, as the program said it, but that a kernel's parameters are its own.
  CUgraphNodeParams what;
  char* packed = nullptr;  // a kernel's parameters
  uint32_t packed_bytes = 0;
  void** places = nullptr;  // of each of them
  bool cooperative = false, has_priority = false;
  int priority = 0;
  Graph* child = nullptr;
  bool enabled = true;
  uint64_t token = 0;  // of what this process runs for it, in an executable graph
  List<GraphNode*> dependencies, dependents;
  uint32_t place = 0;               // where it ends in the image that was written last
  uint32_t index = 0, waiting = 0;  // while an order is looked for, or a copy made
};

struct Graph {
  uint64_t number = 0;      // 0: it has no handle
  List<GraphNode*> nodes;   // as they were made
  bool capturing = false;   // a stream puts nodes into it
  Graph* parent = nullptr;  // whose node it is a child of
};

// A copy with the host at one end or both, or within the device, as rows.
struct RowCopy {
  uint64_t to = 0, to_pitch = 0, from = 0, from_pitch = 0, width = 0, height = 0;
  bool to_device = false, from_device = false;

  bool is_of_device() const { return to_device && from_device; }
};

// With a handle or without. Null if there is no memory.
Graph* new_graph(bool named) REQUIRES(state_mutex);
// With its nodes and their children.
void free_graph(Graph* graph) REQUIRES(state_mutex);
Graph* find_graph(CUgraph handle) REQUIRES(state_mutex);
GraphNode* find_node(CUgraphNode handle) REQUIRES(state_mutex);
CUgraph handle_of(const Graph* graph);
CUgraphNode handle_of(const GraphNode* node);

// The nodes that a program names as dependencies: each another of this graph, none twice.
CUresult find_dependencies(const Graph& graph, const CUgraphNode* nodes,
                           const CUgraphEdgeData* data, size_t count, List<GraphNode*>* found)
    REQUIRES(state_mutex);
CUresult check_edge(const CUgraphEdgeData* data);
// Adds a node that does this, which is checked. Null in `made` unless it succeeds.
CUresult add_node(Graph& graph, const List<GraphNode*>& dependencies, const CUgraphNodeParams& what,
                  GraphNode** made) REQUIRES(state_mutex);
CUresult connect(Graph& graph, GraphNode* from, GraphNode* to);
CUresult disconnect(Graph& graph, GraphNode* from, GraphNode* to);
void remove_node(GraphNode* node) REQUIRES(state_mutex);
// What a node does, again; it stays of its type.
CUresult change_node(GraphNode& node, const CUgraphNodeParams& what) REQUIRES(state_mutex);
// What a node does, from one that has no handle to another; and its end.
void move_node_work(GraphNode* from, GraphNode* to) REQUIRES(state_mutex);
void free_node_work(GraphNode* node) REQUIRES(state_mutex);

// A deep copy. Null if there is no memory.
Graph* clone(const Graph& graph, bool named) REQUIRES(state_mutex);
// Those it depends on come before each node, which else stay as they were made. INVALID_VALUE if
// there is a cycle; `stuck` is then a node of it, or behind it.
CUresult order_nodes(const Graph& graph, List<GraphNode*>* order, GraphNode** stuck);

// What a copy node copies, once more checked. NOT_SUPPORTED for arrays and for more than one layer.
CUresult rows_of(const CUDA_MEMCPY3D& request, RowCopy* copy) REQUIRES(state_mutex);

}  // namespace lambent::forward_client
