// Graphs as structure: made, cloned, asked for their nodes and edges, printed.
#include <algorithm>
#include <cstdio>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/graph_dot.h"

using namespace lambent::emulated_cuda;

namespace {

// Gives a list in the way of these calls: without an array only its length; a longer array is
// filled up with nothing.
template <class Item, class Given>
void give(const std::vector<Item>& found, Given* out, size_t room) {
  for (size_t i = 0; out && i < room; i++) out[i] = i < found.size() ? found[i] : Given{};
}

CUresult give_nodes(const std::vector<GraphNode*>& nodes, CUgraphNode* out, size_t* count) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> handles;
  for (GraphNode* node : nodes) handles.push_back(node->handle());
  give(handles, out, *count);
  *count = out ? std::min(*count, handles.size()) : handles.size();
  return CUDA_SUCCESS;
}

CUresult give_edges(const std::vector<Edge>& edges, CUgraphNode* nodes, CUgraphEdgeData* data,
                    size_t* count) {
  if (!count || (data && !nodes)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> handles;
  std::vector<CUgraphEdgeData> annotations;
  for (const Edge& edge : edges) {
    handles.push_back(edge.node->handle());
    annotations.push_back(edge.data);
  }
  give(handles, nodes, *count);
  give(annotations, data, *count);
  *count = nodes ? std::min(*count, handles.size()) : handles.size();
  return CUDA_SUCCESS;
}

// Applies a change to each pair, and takes back what was changed if one of them fails.
template <class Change, class Undo>
CUresult for_pairs(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                   const CUgraphEdgeData* data, size_t count, bool removes, Change change,
                   Undo undo) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  Graph* graph = process->graphs.graph(handle);
  if (!graph || (count && (!from || !to))) return CUDA_ERROR_INVALID_VALUE;
  if (removes && (graph->has_memory_nodes() || graph->capturing)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    GraphNode* first = process->graphs.node(from[i]);
    GraphNode* second = process->graphs.node(to[i]);
    CUresult result = change(*graph, first, second, data ? data[i] : CUgraphEdgeData{});
    if (result == CUDA_SUCCESS) continue;
    while (i-- > 0) {
      undo(*graph, process->graphs.node(from[i]), process->graphs.node(to[i]),
           data ? data[i] : CUgraphEdgeData{});
    }
    return result;
  }
  return CUDA_SUCCESS;
}

CUresult connect(Graph& graph, GraphNode* from, GraphNode* to, const CUgraphEdgeData& data) {
  return graph.connect(from, to, data);
}
CUresult disconnect(Graph& graph, GraphNode* from, GraphNode* to, const CUgraphEdgeData&) {
  return graph.disconnect(from, to);
}

}  // namespace

CUresult cuGraphCreate(CUgraph* out, unsigned int flags) {
  WITH_PROCESS();
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  const lambent::MutexLock lock(process->graphs.mutex);
  auto graph = std::make_shared<Graph>(&process->graphs, process->graphs.next_id++);
  *out = graph->handle();
  process->graphs.owned[graph.get()] = std::move(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  auto owned = process->graphs.owned.find(handle);
  if (owned == process->graphs.owned.end()) return CUDA_ERROR_INVALID_VALUE;
  if (owned->second->capturing) return CUDA_ERROR_INVALID_VALUE;
  process->graphs.owned.erase(owned);
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* out, CUgraph handle) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  Graph* graph = process->graphs.graph(handle);
  if (!out || !graph || graph->has_memory_nodes() || graph->has_conditionals()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto clone = graph->clone(&process->graphs, &process->graphs.next_id, nullptr);
  *out = clone->handle();
  process->graphs.owned[clone.get()] = std::move(clone);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph handle) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  GraphNode* node = process->graphs.node(original);
  Graph* clone = process->graphs.graph(handle);
  if (!out || !node || !clone) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& twin : clone->nodes()) {
    if (twin->original_id != node->id || twin.get() == node) continue;
    *out = twin->handle();
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  GraphNode* node = process->graphs.node(handle);
  if (!node || !type) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type();
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  Graph* graph = process->graphs.graph(handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> all;
  for (const auto& node : graph->nodes()) all.push_back(node.get());
  return give_nodes(all, nodes, count);
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  Graph* graph = process->graphs.graph(handle);
  return graph ? give_nodes(graph->roots(), nodes, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* data, size_t* count) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  Graph* graph = process->graphs.graph(handle);
  if (!graph || !count || (!from != !to) || (data && !from)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> sources, targets;
  std::vector<CUgraphEdgeData> annotations;
  for (const auto& node : graph->nodes()) {
    for (const Edge& edge : node->dependencies) {
      sources.push_back(edge.node->handle());
      targets.push_back(node->handle());
      annotations.push_back(edge.data);
    }
  }
  give(sources, from, *count);
  give(targets, to, *count);
  give(annotations, data, *count);
  *count = from ? std::min(*count, sources.size()) : sources.size();
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode* nodes,
                                       CUgraphEdgeData* data, size_t* count) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  GraphNode* node = process->graphs.node(handle);
  return node ? give_edges(node->dependencies, nodes, data, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode* nodes,
                                         CUgraphEdgeData* data, size_t* count) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  GraphNode* node = process->graphs.node(handle);
  if (!node) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Edge> edges;
  for (GraphNode* dependent : node->dependents) edges.push_back({dependent, {}});
  return give_edges(edges, nodes, data, count);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, size_t count) {
  return for_pairs(graph, from, to, data, count, false, connect, disconnect);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* data, size_t count) {
  return for_pairs(graph, from, to, data, count, true, disconnect, connect);
}

CUresult cuGraphDestroyNode(CUgraphNode handle) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  GraphNode* node = process->graphs.node(handle);
  if (!node) return CUDA_ERROR_INVALID_VALUE;
  Graph& graph = *node->graph;
  if (graph.capturing || graph.has_memory_nodes()) return CUDA_ERROR_INVALID_VALUE;
  graph.remove(node);
  return CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned int flags) {
  WITH_PROCESS();
  if (!path || flags >= (CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS << 1)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::string text;
  {
    const lambent::MutexLock lock(process->graphs.mutex);
    Graph* graph = process->graphs.graph(handle);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    text = dot_text(*graph, flags);
  }
  FILE* file = std::fopen(path, "we");
  if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  written &= std::fclose(file) == 0;
  return written ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
