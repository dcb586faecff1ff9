// Graphs as structure: made, cloned, asked for their nodes and edges. None of it leaves the
// process.
#include "gpu/forward_client/api.h"

using namespace lambent::forward_client;

namespace {

constexpr CUgraphEdgeData kPlainEdge{};

// Gives a list in the way of these calls: without an array only its length; a longer array is
// filled up with nothing.
CUresult give_nodes(const List<GraphNode*>& nodes, CUgraphNode* out, CUgraphEdgeData* data,
                    size_t* count) {
  if (count == nullptr || (data != nullptr && out == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; out != nullptr && i < *count; ++i) {
    out[i] = i < nodes.count() ? handle_of(nodes[i]) : nullptr;
    if (data != nullptr) data[i] = kPlainEdge;
  }
  if (out == nullptr || *count > nodes.count()) *count = nodes.count();
  return CUDA_SUCCESS;
}

using Change = CUresult (*)(Graph&, GraphNode*, GraphNode*);

// Applies a change to each pair, and takes back what was changed if one of them fails.
CUresult for_pairs(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                   const CUgraphEdgeData* data, size_t count, Change change, Change undo) {
  if (const CUresult result = connection_state()) return result;
  const StateLock lock;
  Graph* graph = find_graph(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (count > 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    CUresult result = check_edge(data == nullptr ? nullptr : data + i);
    if (result == CUDA_SUCCESS) result = change(*graph, find_node(from[i]), find_node(to[i]));
    if (result == CUDA_SUCCESS) continue;
    while (i-- > 0) undo(*graph, find_node(from[i]), find_node(to[i]));
    return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

#define WITH_STATE()                                               \
  if (const CUresult result_ = connection_state()) return result_; \
  const StateLock lock_

CUresult cuGraphCreate(CUgraph* out, unsigned int flags) {
  WITH_STATE();
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Graph* graph = new_graph(true);
  if (graph == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = handle_of(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle) {
  WITH_STATE();
  Graph* graph = find_graph(handle);
  if (graph == nullptr || graph->capturing || graph->parent != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  free_graph(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* out, CUgraph handle) {
  WITH_STATE();
  const Graph* graph = find_graph(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Graph* copy = clone(*graph, true);
  if (copy == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = handle_of(copy);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph handle) {
  WITH_STATE();
  const GraphNode* node = find_node(original);
  const Graph* copy = find_graph(handle);
  if (out == nullptr || node == nullptr || copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const GraphNode* twin : copy->nodes) {
    if (twin->original != node->number || twin == node) continue;
    *out = handle_of(twin);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  WITH_STATE();
  const GraphNode* node = find_node(handle);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->what.type;
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  WITH_STATE();
  const Graph* graph = find_graph(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return give_nodes(graph->nodes, nodes, nullptr, count);
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  WITH_STATE();
  const Graph* graph = find_graph(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  List<GraphNode*> roots;
  bool good = true;
  for (GraphNode* node : graph->nodes) {
    if (node->dependencies.count() == 0) good &= roots.add(node);
  }
  const CUresult result =
      good ? give_nodes(roots, nodes, nullptr, count) : CUDA_ERROR_OUT_OF_MEMORY;
  roots.clear();
  return result;
}

CUresult cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* data, size_t* count) {
  WITH_STATE();
  const Graph* graph = find_graph(handle);
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if ((from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if (data != nullptr && from == nullptr) return CUDA_ERROR_INVALID_VALUE;
  size_t edges = 0;
  for (const GraphNode* node : graph->nodes) {
    for (const GraphNode* before : node->dependencies) {
      if (from != nullptr && edges < *count) {
        from[edges] = handle_of(before);
        to[edges] = handle_of(node);
        if (data != nullptr) data[edges] = kPlainEdge;
      }
      ++edges;
    }
  }
  for (size_t i = edges; from != nullptr && i < *count; ++i) from[i] = to[i] = nullptr;
  if (from == nullptr || *count > edges) *count = edges;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode* nodes,
                                       CUgraphEdgeData* data, size_t* count) {
  WITH_STATE();
  const GraphNode* node = find_node(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return give_nodes(node->dependencies, nodes, data, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode* nodes,
                                         CUgraphEdgeData* data, size_t* count) {
  WITH_STATE();
  const GraphNode* node = find_node(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return give_nodes(node->dependents, nodes, data, count);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, size_t count) {
  return for_pairs(graph, from, to, data, count, connect, disconnect);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* data, size_t count) {
  {
    WITH_STATE();
    const Graph* found = find_graph(graph);
    if (found == nullptr || found->capturing) return CUDA_ERROR_INVALID_VALUE;
  }
  return for_pairs(graph, from, to, data, count, disconnect, connect);
}

CUresult cuGraphDestroyNode(CUgraphNode handle) {
  WITH_STATE();
  GraphNode* node = find_node(handle);
  if (node == nullptr || node->graph->capturing) return CUDA_ERROR_INVALID_VALUE;
  remove_node(node);
  return CUDA_SUCCESS;
}
