// Nodes of graphs: added, asked what they do, and told to do something else.
#include "gpu/forward_client/api.h"
#include "gpu/forward_client/graph_parameters.h"

using namespace lambent::forward_client;

namespace {

CUresult add(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies,
             const CUgraphEdgeData* data, size_t count, const CUgraphNodeParams& what) {
  WITH_CONTEXT();
  Graph* graph = find_graph(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  List<GraphNode*> after;
  GraphNode* node = nullptr;
  CUresult result = find_dependencies(*graph, dependencies, data, count, &after);
  if (result == CUDA_SUCCESS) result = add_node(*graph, after, what, &node);
  after.clear();
  if (result == CUDA_SUCCESS) *out = handle_of(node);
  return result;
}

CUresult add(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
             const CUgraphNodeParams& what) {
  return add(out, graph, dependencies, nullptr, count, what);
}

CUresult change(CUgraphNode handle, const CUgraphNodeParams& what) {
  WITH_CONTEXT();
  GraphNode* node = find_node(handle);
  if (node == nullptr || node->child != nullptr) return CUDA_ERROR_INVALID_VALUE;
  return change_node(*node, what);
}

// Null if there is no such node of this type.
const GraphNode* find_of(CUgraphNode handle, CUgraphNodeType type) REQUIRES(state_mutex) {
  const GraphNode* node = find_node(handle);
  return node != nullptr && node->what.type == type ? node : nullptr;
}

CUresult give_event(CUgraphNode handle, CUgraphNodeType type, CUevent* out) {
  WITH_CONTEXT();
  const GraphNode* node = find_of(handle, type);
  if (node == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = node->what.eventWait.event;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* data, size_t count,
                           CUgraphNodeParams* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add(out, graph, dependencies, data, count, *parameters);
}
CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* parameters) {
  return parameters == nullptr ? CUDA_ERROR_INVALID_VALUE : change(node, *parameters);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add(out, graph, dependencies, count, as_node(*parameters));
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* parameters) {
  WITH_CONTEXT();
  const GraphNode* node = find_of(handle, CU_GRAPH_NODE_TYPE_KERNEL);
  if (node == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *parameters = node->what.kernel;
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
                                       const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return change(node, as_node(*parameters));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMCPY3D* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add(out, graph, dependencies, count, as_node(*parameters));
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D* parameters) {
  WITH_CONTEXT();
  const GraphNode* node = find_of(handle, CU_GRAPH_NODE_TYPE_MEMCPY);
  if (node == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *parameters = node->what.memcpy.copyParams;
  return CUDA_SUCCESS;
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return change(node, as_node(*parameters));
}

CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add(out, graph, dependencies, count, as_node(*parameters));
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS* parameters) {
  WITH_CONTEXT();
  const GraphNode* node = find_of(handle, CU_GRAPH_NODE_TYPE_MEMSET);
  if (node == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMSET_NODE_PARAMS_v2& fill = node->what.memset;
  *parameters = {fill.dst, fill.pitch, fill.value, fill.elementSize, fill.width, fill.height};
  return CUDA_SUCCESS;
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return change(node, as_node(*parameters));
}

CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                            size_t count, const CUDA_HOST_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add(out, graph, dependencies, count, as_node(*parameters));
}
CUresult cuGraphHostNodeGetParams(CUgraphNode handle, CUDA_HOST_NODE_PARAMS* parameters) {
  WITH_CONTEXT();
  const GraphNode* node = find_of(handle, CU_GRAPH_NODE_TYPE_HOST);
  if (node == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *parameters = node->what.host;
  return CUDA_SUCCESS;
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return change(node, as_node(*parameters));
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, CUgraph child) {
  CUgraphNodeParams what = of_type(CU_GRAPH_NODE_TYPE_GRAPH);
  what.graph.graph = child;
  return add(out, graph, dependencies, count, what);
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* out) {
  WITH_CONTEXT();
  const GraphNode* node = find_of(handle, CU_GRAPH_NODE_TYPE_GRAPH);
  if (node == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(node->child);
  return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                             size_t count) {
  return add(out, graph, dependencies, count, of_type(CU_GRAPH_NODE_TYPE_EMPTY));
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                   size_t count, CUevent event) {
  return add(out, graph, dependencies, count, as_node(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* out) {
  return give_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, out);
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return change(node, as_node(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, CUevent event) {
  return add(out, graph, dependencies, count, as_node(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  return give_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, out);
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return change(node, as_node(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to_handle, CUgraphNode from_handle) {
  WITH_CONTEXT();
  GraphNode* to = find_node(to_handle);
  const GraphNode* from = find_of(from_handle, CU_GRAPH_NODE_TYPE_KERNEL);
  if (to == nullptr || from == nullptr || to->what.type != CU_GRAPH_NODE_TYPE_KERNEL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  to->cooperative = from->cooperative;
  to->has_priority = from->has_priority;
  to->priority = from->priority;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID attribute,
                                       CUkernelNodeAttrValue* value) {
  WITH_CONTEXT();
  const GraphNode* node = find_of(handle, CU_GRAPH_NODE_TYPE_KERNEL);
  if (node == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
    value->cooperative = node->cooperative;
  } else if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    value->priority = node->priority;
  } else {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID attribute,
                                       const CUkernelNodeAttrValue* value) {
  WITH_CONTEXT();
  GraphNode* node = find_node(handle);
  if (node == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (node->what.type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
    node->cooperative = value->cooperative != 0;
  } else if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
    node->has_priority = true;
    node->priority = value->priority;
  } else {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}
