#include "gpu/forward_client/graph.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "gpu/forward_client/launch_shape.h"
#include "gpu/forward_client/state.h"

namespace lambent::forward_client {
namespace {

uint64_t next_number() REQUIRES(state_mutex) {
  state().last_graph_number += kHandleBits + 1;
  return state().last_graph_number;
}

template <typename Thing>
Thing* make() {
  void* memory = std::calloc(1, sizeof(Thing));
  return memory == nullptr ? nullptr : new (memory) Thing{};
}

void free_node(GraphNode* node) REQUIRES(state_mutex) {
  if (node->number != 0) state().graph_nodes.erase(node->number);
  free_node_work(node);
  node->dependencies.clear();
  node->dependents.clear();
  std::free(node);
}

// With the parameters where the node has its own.
CUresult take_parameters(GraphNode* node, const FunctionRecord& function, char* packed) {
  auto** places = static_cast<void**>(std::malloc((function.parameter_count + 1) * sizeof(void*)));
  if (places == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < function.parameter_count; ++i) {
    places[i] = packed + function.parameters[i].offset;
  }
  node->packed = packed;
  node->packed_bytes = function.parameter_bytes;
  node->places = places;
  node->what.kernel.kernelParams = places;
  node->what.kernel.extra = nullptr;
  return CUDA_SUCCESS;
}

CUresult take_kernel(GraphNode* node, const CUDA_KERNEL_NODE_PARAMS& given) REQUIRES(state_mutex) {
  // A kernel of a library is a function here.
  const auto handle = given.func != nullptr ? given.func : reinterpret_cast<CUfunction>(given.kern);
  const FunctionRecord* function = state().functions.find(number_of(handle));
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const LaunchShape shape = {{given.gridDimX, given.gridDimY, given.gridDimZ},
                             {given.blockDimX, given.blockDimY, given.blockDimZ},
                             given.sharedMemBytes};
  if (const CUresult result = check_shape(*function, shape)) return result;
  char* packed = static_cast<char*>(std::malloc(function->parameter_bytes + 1));
  if (packed == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = pack_parameters(*function, given.kernelParams, given.extra, packed);
  if (result == CUDA_SUCCESS) result = take_parameters(node, *function, packed);
  if (result != CUDA_SUCCESS) std::free(packed);
  return result;
}

CUresult check_fill(const CUDA_MEMSET_NODE_PARAMS_v2& fill) REQUIRES(state_mutex) {
  const unsigned element = fill.elementSize;
  size_t row = 0, bytes = 0;
  if (element != 1 && element != 2 && element != 4) return CUDA_ERROR_INVALID_VALUE;
  if (fill.width == 0 || fill.height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_mul_overflow(fill.width, element, &row)) return CUDA_ERROR_INVALID_VALUE;
  if (fill.height > 1 && fill.pitch < row) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_mul_overflow(fill.pitch, fill.height - 1, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_add_overflow(bytes, row, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (fill.dst % element != 0) return CUDA_ERROR_INVALID_VALUE;
  return state().device_ranges.contains(fill.dst, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult take_child(GraphNode* node, const CUDA_CHILD_GRAPH_NODE_PARAMS& given)
    REQUIRES(state_mutex) {
  Graph* child = find_graph(given.graph);
  if (child == nullptr || child->capturing) return CUDA_ERROR_INVALID_VALUE;
  if (given.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) return CUDA_ERROR_NOT_SUPPORTED;
  for (const Graph* above = node->graph; above != nullptr; above = above->parent) {
    if (above == child) return CUDA_ERROR_INVALID_VALUE;
  }
  node->child = clone(*child, true);
  if (node->child == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  node->child->parent = node->graph;
  node->what.graph.graph = handle_of(node->child);
  return CUDA_SUCCESS;
}

// Fills in what the node does; it has done nothing before.
CUresult take_work(GraphNode* node, const CUgraphNodeParams& what) REQUIRES(state_mutex) {
  node->what = what;
  switch (what.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return take_kernel(node, what.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      RowCopy copy;
      return rows_of(what.memcpy.copyParams, &copy);
    }
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return check_fill(what.memset);
    case CU_GRAPH_NODE_TYPE_HOST:
      return what.host.fn == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return take_child(node, what.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: {
      const bool known = state().events.find(number_of(what.eventWait.event)) != nullptr;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// One side of a copy.
CUresult find_side(CUmemorytype type, const void* host, CUdeviceptr address, size_t x, size_t y,
                   size_t pitch, size_t width, size_t height, bool* on_device, uint64_t* begin,
                   uint64_t* step) REQUIRES(state_mutex) {
  if (type == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  const bool is_host = type == CU_MEMORYTYPE_HOST;
  if (!is_host && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *begin = is_host ? reinterpret_cast<uint64_t>(host) : address;
  *step = pitch == 0 ? width + x : pitch;
  if (*begin == 0 || (height > 1 && *step < x + width)) return CUDA_ERROR_INVALID_VALUE;
  *on_device =
      type == CU_MEMORYTYPE_DEVICE || (!is_host && state().device_ranges.find(*begin) != nullptr);
  size_t offset = 0, rows = 0;
  if (__builtin_mul_overflow(y, *step, &offset)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_mul_overflow(height - 1, *step, &rows)) return CUDA_ERROR_INVALID_VALUE;
  *begin += offset + x;
  if (*on_device && !state().device_ranges.contains(*begin, rows + width)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult copy_work(const GraphNode& from, GraphNode* to) REQUIRES(state_mutex) {
  to->what = from.what;
  to->cooperative = from.cooperative;
  to->has_priority = from.has_priority;
  to->priority = from.priority;
  to->enabled = from.enabled;
  if (from.packed != nullptr) {
    const FunctionRecord* function = state().functions.find(number_of(
        from.what.kernel.func != nullptr ? from.what.kernel.func
                                         : reinterpret_cast<CUfunction>(from.what.kernel.kern)));
    // Its module has gone.
    if (function == nullptr || function->parameter_bytes != from.packed_bytes) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    char* packed = static_cast<char*>(std::malloc(from.packed_bytes + 1));
    if (packed == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    std::memcpy(packed, from.packed, from.packed_bytes);
    if (const CUresult result = take_parameters(to, *function, packed)) {
      std::free(packed);
      return result;
    }
  }
  if (from.child == nullptr) return CUDA_SUCCESS;
  to->child = clone(*from.child, to->number != 0);
  if (to->child == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  to->child->parent = to->graph;
  to->what.graph.graph = handle_of(to->child);
  return CUDA_SUCCESS;
}

bool copy_edges(const Graph& from, Graph* to) {
  for (size_t i = 0; i < from.nodes.count(); ++i) {
    for (const GraphNode* before : from.nodes[i]->dependencies) {
      GraphNode* twin = to->nodes[before->index];
      if (!to->nodes[i]->dependencies.add(twin)) return false;
      if (!twin->dependents.add(to->nodes[i])) return false;
    }
  }
  return true;
}

GraphNode* new_node(Graph& graph, bool named) REQUIRES(state_mutex) {
  auto* node = make<GraphNode>();
  if (node == nullptr) return nullptr;
  node->graph = &graph;
  if (named) node->number = node->original = next_number();
  if (named && !state().graph_nodes.add(node->number, node)) {
    std::free(node);
    return nullptr;
  }
  return node;
}

}  // namespace

Graph* new_graph(bool named) {
  auto* graph = make<Graph>();
  if (graph == nullptr || !named) return graph;
  graph->number = next_number();
  if (state().graphs.add(graph->number, graph)) return graph;
  std::free(graph);
  return nullptr;
}

void free_graph(Graph* graph) {
  for (GraphNode* node : graph->nodes) free_node(node);
  graph->nodes.clear();
  if (graph->number != 0) state().graphs.erase(graph->number);
  std::free(graph);
}

Graph* find_graph(CUgraph handle) {
  Graph** found = state().graphs.find(reinterpret_cast<uint64_t>(handle));
  return found == nullptr ? nullptr : *found;
}
GraphNode* find_node(CUgraphNode handle) {
  GraphNode** found = state().graph_nodes.find(reinterpret_cast<uint64_t>(handle));
  return found == nullptr ? nullptr : *found;
}
CUgraph handle_of(const Graph* graph) { return reinterpret_cast<CUgraph>(graph->number); }
CUgraphNode handle_of(const GraphNode* node) { return reinterpret_cast<CUgraphNode>(node->number); }

CUresult check_edge(const CUgraphEdgeData* data) {
  if (data == nullptr) return CUDA_SUCCESS;
  static constexpr unsigned char kZero[sizeof(data->reserved)] = {};
  if (std::memcmp(data->reserved, kZero, sizeof(kZero)) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (data->type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) return CUDA_ERROR_INVALID_VALUE;
  if (data->to_port != 0 || data->from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return data->type != 0 || data->from_port != 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUresult find_dependencies(const Graph& graph, const CUgraphNode* nodes,
                           const CUgraphEdgeData* data, size_t count, List<GraphNode*>* found) {
  if (count > 0 && nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = find_node(nodes[i]);
    if (node == nullptr || node->graph != &graph) return CUDA_ERROR_INVALID_VALUE;
    if (found->contains(node)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = check_edge(data == nullptr ? nullptr : data + i)) return result;
    if (!found->add(node)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

CUresult add_node(Graph& graph, const List<GraphNode*>& dependencies, const CUgraphNodeParams& what,
                  GraphNode** made) {
  *made = nullptr;
  if (graph.nodes.count() == forward_ring::kMostGraphNodes) return CUDA_ERROR_OUT_OF_MEMORY;
  GraphNode* node = new_node(graph, true);
  if (node == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = take_work(node, what);
  if (result == CUDA_SUCCESS && !graph.nodes.add(node)) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) {
    free_node(node);
    return result;
  }
  for (GraphNode* before : dependencies) {
    if (result == CUDA_SUCCESS) result = connect(graph, before, node);
  }
  if (result != CUDA_SUCCESS) {
    remove_node(node);
    return result;
  }
  *made = node;
  return CUDA_SUCCESS;
}

CUresult connect(Graph& graph, GraphNode* from, GraphNode* to) {
  if (from == nullptr || to == nullptr || from == to) return CUDA_ERROR_INVALID_VALUE;
  if (from->graph != &graph || to->graph != &graph) return CUDA_ERROR_INVALID_VALUE;
  if (to->dependencies.contains(from)) return CUDA_ERROR_INVALID_VALUE;
  if (!to->dependencies.add(from)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (from->dependents.add(to)) return CUDA_SUCCESS;
  to->dependencies.remove(from);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult disconnect(Graph& graph, GraphNode* from, GraphNode* to) {
  if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (from->graph != &graph || to->graph != &graph) return CUDA_ERROR_INVALID_VALUE;
  if (!to->dependencies.remove(from)) return CUDA_ERROR_INVALID_VALUE;
  from->dependents.remove(to);
  return CUDA_SUCCESS;
}

void remove_node(GraphNode* node) {
  for (GraphNode* before : node->dependencies) before->dependents.remove(node);
  for (GraphNode* after : node->dependents) after->dependencies.remove(node);
  node->graph->nodes.remove(node);
  free_node(node);
}

void free_node_work(GraphNode* node) {
  std::free(node->packed);
  std::free(node->places);
  if (node->child != nullptr) free_graph(node->child);
  node->packed = nullptr;
  node->places = nullptr;
  node->child = nullptr;
}

void move_node_work(GraphNode* from, GraphNode* to) {
  free_node_work(to);
  to->what = from->what;
  to->packed = from->packed;
  to->packed_bytes = from->packed_bytes;
  to->places = from->places;
  to->child = from->child;
  to->token = from->token;
  from->packed = nullptr;
  from->places = nullptr;
  from->child = nullptr;
}

CUresult change_node(GraphNode& node, const CUgraphNodeParams& what) {
  if (node.what.type != what.type) return CUDA_ERROR_INVALID_VALUE;
  GraphNode changed{};
  changed.graph = node.graph;
  const CUresult result = take_work(&changed, what);
  if (result == CUDA_SUCCESS) move_node_work(&changed, &node);
  free_node_work(&changed);
  return result;
}

Graph* clone(const Graph& graph, bool named) {
  Graph* copy = new_graph(named);
  if (copy == nullptr) return nullptr;
  bool good = true;
  for (size_t i = 0; i < graph.nodes.count() && good; ++i) {
    graph.nodes[i]->index = static_cast<uint32_t>(i);
    GraphNode* node = new_node(*copy, named);
    good = node != nullptr && copy->nodes.add(node);
    if (!good && node != nullptr) free_node(node);
    if (!good) break;
    const GraphNode& source = *graph.nodes[i];
    node->original = source.number != 0 ? source.number : source.original;
    good = copy_work(*graph.nodes[i], node) == CUDA_SUCCESS;
  }
  if (good && copy_edges(graph, copy)) return copy;
  free_graph(copy);
  return nullptr;
}

CUresult order_nodes(const Graph& graph, List<GraphNode*>* order, GraphNode** stuck) {
  *stuck = nullptr;
  bool in_order = true;
  for (size_t i = 0; i < graph.nodes.count(); ++i) {
    graph.nodes[i]->index = static_cast<uint32_t>(i);
    graph.nodes[i]->waiting = static_cast<uint32_t>(graph.nodes[i]->dependencies.count());
  }
  for (const GraphNode* node : graph.nodes) {
    for (const GraphNode* before : node->dependencies) in_order &= before->index < node->index;
  }
  if (in_order) return order->add_all(graph.nodes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  for (GraphNode* node : graph.nodes) {
    if (node->waiting == 0 && !order->add(node)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (size_t i = 0; i < order->count(); ++i) {
    for (GraphNode* after : (*order)[i]->dependents) {
      if (--after->waiting == 0 && !order->add(after)) return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  for (GraphNode* node : graph.nodes) {
    if (node->waiting == 0) continue;
    *stuck = node;
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult rows_of(const CUDA_MEMCPY3D& r, RowCopy* copy) {
  if (r.WidthInBytes == 0 || r.Height == 0 || r.Depth == 0) return CUDA_ERROR_INVALID_VALUE;
  if (r.Depth > 1 || r.srcZ != 0 || r.dstZ != 0) return CUDA_ERROR_NOT_SUPPORTED;
  copy->width = r.WidthInBytes;
  copy->height = r.Height;
  if (const CUresult result =
          find_side(r.srcMemoryType, r.srcHost, r.srcDevice, r.srcXInBytes, r.srcY, r.srcPitch,
                    r.WidthInBytes, r.Height, &copy->from_device, &copy->from, &copy->from_pitch)) {
    return result;
  }
  return find_side(r.dstMemoryType, r.dstHost, r.dstDevice, r.dstXInBytes, r.dstY, r.dstPitch,
                   r.WidthInBytes, r.Height, &copy->to_device, &copy->to, &copy->to_pitch);
}

}  // namespace lambent::forward_client
