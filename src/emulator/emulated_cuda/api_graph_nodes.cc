// Nodes of graphs: added, asked for their parameters, changed in a graph. The calls for one type of
// node are the general ones with the type filled in.
#include <cstring>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/node_parameters.h"

using namespace lambent::emulated_cuda;

namespace {

// Finds the dependencies that a call names.
CUresult find_edges(const GraphIndex& index, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                    size_t count, std::vector<Edge>* edges) REQUIRES(index.mutex) {
  if (count && !nodes) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    edges->push_back({index.node(nodes[i]), data ? data[i] : CUgraphEdgeData{}});
  }
  return CUDA_SUCCESS;
}

CUresult add(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies,
             const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* parameters) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  Graph* graph = process->graphs.graph(handle);
  if (!out || !graph || !parameters) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Edge> edges;
  if (CUresult result = find_edges(process->graphs, dependencies, data, count, &edges)) {
    return result;
  }
  if (CUresult result = graph->check_dependencies(edges)) return result;
  NodePlan plan;
  if (CUresult result = plan_node(*process, *graph, parameters, &plan)) return result;
  GraphNode* node =
      graph->add(process->graphs.next_id++, std::move(plan.work), std::move(plan.context), edges);
  node->copy_request = plan.copy_request;
  if (auto* conditional = std::get_if<Conditional>(&node->work)) {
    parameters->conditional.phGraph_out = conditional->handles.data();
  }
  *out = node->handle();
  return CUDA_SUCCESS;
}

CUresult change(CUgraphNode handle, const CUgraphNodeParams* parameters) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  GraphNode* node = process->graphs.node(handle);
  if (!node || !parameters || node->type() != parameters->type) return CUDA_ERROR_INVALID_VALUE;
  NodePlan plan;
  if (CUresult result = plan_change(*process, *node, *parameters, &plan)) return result;
  node->work = std::move(plan.work);
  node->context = std::move(plan.context);
  node->copy_request = plan.copy_request;
  return CUDA_SUCCESS;
}

template <class Parameters>
CUresult tell_parameters(CUgraphNode handle, Parameters* out) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  GraphNode* node = process->graphs.node(handle);
  if (!node || !out) return CUDA_ERROR_INVALID_VALUE;
  return tell(*node, out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// The operation of one kind that a node holds.
template <class Kind>
Kind* operation_of(Process& process, CUgraphNode handle) REQUIRES(process.graphs.mutex) {
  GraphNode* node = process.graphs.node(handle);
  auto* operation = node ? std::get_if<Operation>(&node->work) : nullptr;
  return operation ? std::get_if<Kind>(operation) : nullptr;
}

template <class Kind>
CUresult tell_event(CUgraphNode handle, CUevent* out) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  Kind* own = operation_of<Kind>(*process, handle);
  if (!own || !out) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUevent>(own->event.get());
  return CUDA_SUCCESS;
}

CUgraphNodeParams of_type(CUgraphNodeType type) {
  CUgraphNodeParams parameters;
  std::memset(&parameters, 0, sizeof parameters);
  parameters.type = type;
  return parameters;
}

CUgraphNodeParams kernel(const CUDA_KERNEL_NODE_PARAMS& given) {
  auto parameters = of_type(CU_GRAPH_NODE_TYPE_KERNEL);
  parameters.kernel = given;
  return parameters;
}
CUgraphNodeParams copy(const CUDA_MEMCPY3D& given, CUcontext context) {
  auto parameters = of_type(CU_GRAPH_NODE_TYPE_MEMCPY);
  parameters.memcpy.copyParams = given;
  parameters.memcpy.copyCtx = context;
  return parameters;
}
CUgraphNodeParams fill(const CUDA_MEMSET_NODE_PARAMS& given, CUcontext context) {
  auto parameters = of_type(CU_GRAPH_NODE_TYPE_MEMSET);
  parameters.memset = {given.dst,   given.pitch,  given.value, given.elementSize,
                       given.width, given.height, context};
  return parameters;
}
CUgraphNodeParams host(const CUDA_HOST_NODE_PARAMS& given) {
  auto parameters = of_type(CU_GRAPH_NODE_TYPE_HOST);
  parameters.host = given;
  return parameters;
}
CUgraphNodeParams event(CUgraphNodeType type, CUevent given) {
  auto parameters = of_type(type);
  parameters.eventRecord.event = given;
  return parameters;
}
CUgraphNodeParams memory_operations(const CUDA_BATCH_MEM_OP_NODE_PARAMS& given) {
  auto parameters = of_type(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  parameters.memOp = given;
  return parameters;
}

CUresult add(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
             CUgraphNodeParams parameters) {
  return add(out, graph, dependencies, nullptr, count, &parameters);
}

// The context that a node of a graph has: kept where a call changes a node without naming one.
CUcontext context_of(CUgraphNode handle) {
  Process* process = nullptr;
  if (Process::get(&process)) return nullptr;
  const lambent::MutexLock lock(process->graphs.mutex);
  GraphNode* node = process->graphs.node(handle);
  return node ? reinterpret_cast<CUcontext>(node->context.get()) : nullptr;
}

}  // namespace

CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* data, size_t count,
                           CUgraphNodeParams* parameters) {
  return add(out, graph, dependencies, data, count, parameters);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* parameters) {
  return change(node, parameters);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  return add(out, graph, dependencies, count, kernel(*parameters));
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* parameters) {
  return tell_parameters(node, parameters);
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
                                       const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  auto wanted = kernel(*parameters);
  return change(node, &wanted);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMCPY3D* parameters, CUcontext context) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  return add(out, graph, dependencies, count, copy(*parameters, context));
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* parameters) {
  return tell_parameters(node, parameters);
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  auto wanted = copy(*parameters, context_of(node));
  return change(node, &wanted);
}

CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* parameters,
                              CUcontext context) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  return add(out, graph, dependencies, count, fill(*parameters, context));
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* parameters) {
  return tell_parameters(node, parameters);
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  auto wanted = fill(*parameters, context_of(node));
  return change(node, &wanted);
}

CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                            size_t count, const CUDA_HOST_NODE_PARAMS* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  return add(out, graph, dependencies, count, host(*parameters));
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* parameters) {
  return tell_parameters(node, parameters);
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  auto wanted = host(*parameters);
  return change(node, &wanted);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, CUgraph child) {
  auto parameters = of_type(CU_GRAPH_NODE_TYPE_GRAPH);
  parameters.graph.graph = child;
  return add(out, graph, dependencies, count, parameters);
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* out) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  GraphNode* node = process->graphs.node(handle);
  auto* child = node ? std::get_if<ChildGraph>(&node->work) : nullptr;
  if (!child || !out) return CUDA_ERROR_INVALID_VALUE;
  *out = child->graph->handle();
  return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                             size_t count) {
  return add(out, graph, dependencies, count, of_type(CU_GRAPH_NODE_TYPE_EMPTY));
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                   size_t count, CUevent given) {
  return add(out, graph, dependencies, count, event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, given));
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* out) {
  return tell_event<EventRecord>(node, out);
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent given) {
  auto wanted = event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, given);
  return change(node, &wanted);
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, CUevent given) {
  return add(out, graph, dependencies, count, event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, given));
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  return tell_event<EventWait>(node, out);
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent given) {
  auto wanted = event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, given);
  return change(node, &wanted);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  return add(out, graph, dependencies, count, memory_operations(*parameters));
}
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node,
                                        CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  return tell_parameters(node, parameters);
}
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  auto wanted = memory_operations(*parameters);
  return change(node, &wanted);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  auto wanted = of_type(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  wanted.alloc = *parameters;
  if (CUresult result = add(out, graph, dependencies, nullptr, count, &wanted)) return result;
  parameters->dptr = wanted.alloc.dptr;
  return CUDA_SUCCESS;
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  return tell_parameters(node, parameters);
}
CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                               size_t count, CUdeviceptr address) {
  auto parameters = of_type(CU_GRAPH_NODE_TYPE_MEM_FREE);
  parameters.free.dptr = address;
  return add(out, graph, dependencies, count, parameters);
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr* out) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  GraphFree* own = operation_of<GraphFree>(*process, handle);
  if (!own || !out) return CUDA_ERROR_INVALID_VALUE;
  *out = own->address;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  auto* target = operation_of<KernelLaunch>(*process, to);
  auto* source = operation_of<KernelLaunch>(*process, from);
  if (!target || !source) return CUDA_ERROR_INVALID_VALUE;
  target->attributes = source->attributes;
  target->priority = source->priority;
  target->cooperative = source->cooperative;
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID attribute,
                                       CUkernelNodeAttrValue* value) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  auto* launch = operation_of<KernelLaunch>(*process, handle);
  return launch && value ? get_attribute(*launch, attribute, value) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID attribute,
                                       const CUkernelNodeAttrValue* value) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  auto* launch = operation_of<KernelLaunch>(*process, handle);
  return launch && value ? set_attribute(*launch, attribute, *value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph handle,
                                        CUcontext context_handle, unsigned int launch_value,
                                        unsigned int flags) {
  WITH_PROCESS();
  std::shared_ptr<Context> context;
  CUresult found = CUDA_SUCCESS;
  if (context_handle) {
    context = process->contexts.find(context_handle);
    if (!context) found = CUDA_ERROR_INVALID_CONTEXT;
  } else {
    found = current(&process, &context);
  }
  if (found) return found;
  if (!out || flags > CU_GRAPH_COND_ASSIGN_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  const lambent::MutexLock lock(process->graphs.mutex);
  Graph* graph = process->graphs.graph(handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  auto value = std::make_shared<ConditionalValue>();
  value->launch_value = launch_value;
  value->assigned_at_launch = flags & CU_GRAPH_COND_ASSIGN_DEFAULT;
  value->context = context.get();
  value->graph_id = graph->id();
  *out = reinterpret_cast<CUgraphConditionalHandle>(&value->value);
  process->graphs.conditionals[&value->value] = value;
  graph->conditional_values.push_back(std::move(value));
  return CUDA_SUCCESS;
}
