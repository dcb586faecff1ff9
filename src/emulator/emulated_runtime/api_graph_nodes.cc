// The nodes of graphs: added, and their parameters read and changed, in graphs and instances.
#include <cstring>

#include "emulator/emulated_runtime/api.h"
#include "emulator/emulated_runtime/copies.h"

using namespace lambent::emulated_runtime;

namespace {

CUcontext current_context(const Driver& cu) {
  CUcontext context = nullptr;
  cu.ctx_get_current(&context);
  return context;
}

cudaError_t to_driver(const Driver& cu, const cudaKernelNodeParams& given,
                      CUDA_KERNEL_NODE_PARAMS* out) {
  *out = {};
  if (cudaError_t error = function_of(cu, given.func, &out->func)) return error;
  out->gridDimX = given.gridDim.x;
  out->gridDimY = given.gridDim.y;
  out->gridDimZ = given.gridDim.z;
  out->blockDimX = given.blockDim.x;
  out->blockDimY = given.blockDim.y;
  out->blockDimZ = given.blockDim.z;
  out->sharedMemBytes = given.sharedMemBytes;
  out->kernelParams = given.kernelParams;
  out->extra = given.extra;
  return cudaSuccess;
}

// The copies between device and symbol as copies of memory.
cudaError_t to_symbol_plan(const Driver& cu, const void* symbol, const void* from, size_t bytes,
                           size_t offset, cudaMemcpyKind kind, CUDA_MEMCPY3D* plan) {
  char* to = nullptr;
  if (!to_symbol(kind)) return cudaErrorInvalidMemcpyDirection;
  if (cudaError_t error = symbol_range(cu, symbol, bytes, offset, &to)) return error;
  return plan_1d(cu, to, from, bytes, kind, plan);
}
cudaError_t from_symbol_plan(const Driver& cu, void* to, const void* symbol, size_t bytes,
                             size_t offset, cudaMemcpyKind kind, CUDA_MEMCPY3D* plan) {
  char* from = nullptr;
  if (!from_symbol(kind)) return cudaErrorInvalidMemcpyDirection;
  if (cudaError_t error = symbol_range(cu, symbol, bytes, offset, &from)) return error;
  return plan_1d(cu, to, from, bytes, kind, plan);
}

cudaError_t to_driver(const Driver& cu, const cudaGraphNodeParams& given, CUgraphNodeParams* out) {
  static_assert(sizeof given == sizeof *out);
  std::memcpy(out, &given, sizeof given);
  switch (given.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return to_driver(cu, given.kernel, &out->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      out->memcpy.copyCtx = current_context(cu);
      return plan_3d(cu, given.memcpy.copyParams, &out->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      out->memset.ctx = current_context(cu);
      return cudaSuccess;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      out->conditional.ctx = current_context(cu);
      return cudaSuccess;
    default:
      return cudaSuccess;
  }
}

// What the driver fills in.
void take_results(const CUgraphNodeParams& from, cudaGraphNodeParams* to) {
  if (to->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) to->alloc.dptr = from.alloc.dptr;
  if (to->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    to->conditional.phGraph_out = from.conditional.phGraph_out;
  }
}

}  // namespace

// What every cudaGraphAdd*Node begins with.
#define NODE_PLACE \
  cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count

RUNTIME_API cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                             const CUgraphEdgeData* data, size_t count,
                             cudaGraphNodeParams* parameters) {
  WITH_CONTEXT();
  if (!parameters) return record(cudaErrorInvalidValue);
  CUgraphNodeParams converted;
  RETURN_IF_ERROR(to_driver(cu, *parameters, &converted));
  RETURN_IF_ERROR(cu.graph_add_node(node, graph, after, data, count, &converted));
  take_results(converted, parameters);
  return cudaSuccess;
}

RUNTIME_API cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* parameters) {
  WITH_CONTEXT();
  if (!parameters) return record(cudaErrorInvalidValue);
  CUgraphNodeParams converted;
  RETURN_IF_ERROR(to_driver(cu, *parameters, &converted));
  return record(cu.graph_node_set_params(node, &converted));
}

RUNTIME_API cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* parameters) {
  WITH_CONTEXT();
  if (!parameters) return record(cudaErrorInvalidValue);
  CUgraphNodeParams converted;
  RETURN_IF_ERROR(to_driver(cu, *parameters, &converted));
  return record(cu.graph_exec_node_set_params(exec, node, &converted));
}

RUNTIME_API cudaGraphAddKernelNode(NODE_PLACE, const cudaKernelNodeParams* parameters) {
  WITH_CONTEXT();
  if (!parameters) return record(cudaErrorInvalidValue);
  CUDA_KERNEL_NODE_PARAMS converted;
  RETURN_IF_ERROR(to_driver(cu, *parameters, &converted));
  return record(cu.graph_add_kernel_node(node, graph, after, count, &converted));
}

RUNTIME_API cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* parameters) {
  WITH_CONTEXT();
  if (!parameters) return record(cudaErrorInvalidValue);
  CUDA_KERNEL_NODE_PARAMS found{};
  const char* name = nullptr;
  RETURN_IF_ERROR(cu.graph_kernel_node_get_params(node, &found));
  RETURN_IF_ERROR(found.func ? cu.func_get_name(&name, found.func)
                             : cu.kernel_get_name(&name, found.kern));
  const void* function = Registry::get().host_function(name);
  *parameters = {const_cast<void*>(function),
                 {found.gridDimX, found.gridDimY, found.gridDimZ},
                 {found.blockDimX, found.blockDimY, found.blockDimZ},
                 found.sharedMemBytes,
                 found.kernelParams,
                 found.extra};
  return cudaSuccess;
}

RUNTIME_API cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                         const cudaKernelNodeParams* parameters) {
  WITH_CONTEXT();
  if (!parameters) return record(cudaErrorInvalidValue);
  CUDA_KERNEL_NODE_PARAMS converted;
  RETURN_IF_ERROR(to_driver(cu, *parameters, &converted));
  return record(cu.graph_kernel_node_set_params(node, &converted));
}

RUNTIME_API cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* parameters) {
  WITH_CONTEXT();
  if (!parameters) return record(cudaErrorInvalidValue);
  CUDA_KERNEL_NODE_PARAMS converted;
  RETURN_IF_ERROR(to_driver(cu, *parameters, &converted));
  return record(cu.graph_exec_kernel_node_set_params(exec, node, &converted));
}

FORWARD(cudaGraphKernelNodeCopyAttributes, graph_kernel_node_copy_attributes,
        (cudaGraphNode_t to, cudaGraphNode_t from), (to, from))
FORWARD(cudaGraphKernelNodeGetAttribute, graph_kernel_node_get_attribute,
        (cudaGraphNode_t node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue* value),
        (node, attribute, value))
FORWARD(cudaGraphKernelNodeSetAttribute, graph_kernel_node_set_attribute,
        (cudaGraphNode_t node, CUkernelNodeAttrID attribute, const CUkernelNodeAttrValue* value),
        (node, attribute, value))

// Copies. MEMCPY_NODE(suffix, (parameters), how to plan it): adds one, and changes one in a graph
// and in an instance.
#define UNPACK(...) __VA_ARGS__
#define MEMCPY_NODE(suffix, parameters, make_plan)                                                 \
  RUNTIME_API cudaGraphAddMemcpyNode##suffix(NODE_PLACE, UNPACK parameters) {                      \
    WITH_CONTEXT();                                                                                \
    CUDA_MEMCPY3D plan;                                                                            \
    RETURN_IF_ERROR(make_plan);                                                                    \
    return record(                                                                                 \
        cu.graph_add_memcpy_node(node, graph, after, count, &plan, current_context(cu)));          \
  }                                                                                                \
  RUNTIME_API cudaGraphMemcpyNodeSetParams##suffix(cudaGraphNode_t node, UNPACK parameters) {      \
    WITH_CONTEXT();                                                                                \
    CUDA_MEMCPY3D plan;                                                                            \
    RETURN_IF_ERROR(make_plan);                                                                    \
    return record(cu.graph_memcpy_node_set_params(node, &plan));                                   \
  }                                                                                                \
  RUNTIME_API cudaGraphExecMemcpyNodeSetParams##suffix(cudaGraphExec_t exec, cudaGraphNode_t node, \
                                                       UNPACK parameters) {                        \
    WITH_CONTEXT();                                                                                \
    CUDA_MEMCPY3D plan;                                                                            \
    RETURN_IF_ERROR(make_plan);                                                                    \
    return record(cu.graph_exec_memcpy_node_set_params(exec, node, &plan, current_context(cu)));   \
  }

MEMCPY_NODE(, (const cudaMemcpy3DParms* parameters),
            parameters ? plan_3d(cu, *parameters, &plan) : cudaErrorInvalidValue)
MEMCPY_NODE(1D, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
            plan_1d(cu, to, from, bytes, kind, &plan))
MEMCPY_NODE(ToSymbol,
            (const void* symbol, const void* from, size_t bytes, size_t offset,
             cudaMemcpyKind kind),
            to_symbol_plan(cu, symbol, from, bytes, offset, kind, &plan))
MEMCPY_NODE(FromSymbol,
            (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
            from_symbol_plan(cu, to, symbol, bytes, offset, kind, &plan))

RUNTIME_API cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* parameters) {
  WITH_CONTEXT();
  if (!parameters) return record(cudaErrorInvalidValue);
  CUDA_MEMCPY3D plan{};
  RETURN_IF_ERROR(cu.graph_memcpy_node_get_params(node, &plan));
  return record(parameters_of(cu, plan, parameters));
}

RUNTIME_API cudaGraphAddMemsetNode(NODE_PLACE, const CUDA_MEMSET_NODE_PARAMS* parameters) {
  WITH_CONTEXT();
  return record(
      cu.graph_add_memset_node(node, graph, after, count, parameters, current_context(cu)));
}
FORWARD(cudaGraphMemsetNodeGetParams, graph_memset_node_get_params,
        (cudaGraphNode_t node, CUDA_MEMSET_NODE_PARAMS* parameters), (node, parameters))
FORWARD(cudaGraphMemsetNodeSetParams, graph_memset_node_set_params,
        (cudaGraphNode_t node, const CUDA_MEMSET_NODE_PARAMS* parameters), (node, parameters))
FORWARD(cudaGraphExecMemsetNodeSetParams, graph_exec_memset_node_set_params,
        (cudaGraphExec_t exec, cudaGraphNode_t node, const CUDA_MEMSET_NODE_PARAMS* parameters),
        (exec, node, parameters, current_context(cu)))

FORWARD(cudaGraphAddHostNode, graph_add_host_node,
        (NODE_PLACE, const CUDA_HOST_NODE_PARAMS* parameters),
        (node, graph, after, count, parameters))
FORWARD(cudaGraphHostNodeGetParams, graph_host_node_get_params,
        (cudaGraphNode_t node, CUDA_HOST_NODE_PARAMS* parameters), (node, parameters))
FORWARD(cudaGraphHostNodeSetParams, graph_host_node_set_params,
        (cudaGraphNode_t node, const CUDA_HOST_NODE_PARAMS* parameters), (node, parameters))
FORWARD(cudaGraphExecHostNodeSetParams, graph_exec_host_node_set_params,
        (cudaGraphExec_t exec, cudaGraphNode_t node, const CUDA_HOST_NODE_PARAMS* parameters),
        (exec, node, parameters))

FORWARD(cudaGraphAddChildGraphNode, graph_add_child_graph_node, (NODE_PLACE, cudaGraph_t child),
        (node, graph, after, count, child))
FORWARD(cudaGraphChildGraphNodeGetGraph, graph_child_graph_node_get_graph,
        (cudaGraphNode_t node, cudaGraph_t* graph), (node, graph))
FORWARD(cudaGraphExecChildGraphNodeSetParams, graph_exec_child_graph_node_set_params,
        (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child), (exec, node, child))
FORWARD(cudaGraphAddEmptyNode, graph_add_empty_node, (NODE_PLACE), (node, graph, after, count))

FORWARD(cudaGraphAddEventRecordNode, graph_add_event_record_node, (NODE_PLACE, cudaEvent_t event),
        (node, graph, after, count, event))
FORWARD(cudaGraphEventRecordNodeGetEvent, graph_event_record_node_get_event,
        (cudaGraphNode_t node, cudaEvent_t* event), (node, event))
FORWARD(cudaGraphEventRecordNodeSetEvent, graph_event_record_node_set_event,
        (cudaGraphNode_t node, cudaEvent_t event), (node, event))
FORWARD(cudaGraphExecEventRecordNodeSetEvent, graph_exec_event_record_node_set_event,
        (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event), (exec, node, event))
FORWARD(cudaGraphAddEventWaitNode, graph_add_event_wait_node, (NODE_PLACE, cudaEvent_t event),
        (node, graph, after, count, event))
FORWARD(cudaGraphEventWaitNodeGetEvent, graph_event_wait_node_get_event,
        (cudaGraphNode_t node, cudaEvent_t* event), (node, event))
FORWARD(cudaGraphEventWaitNodeSetEvent, graph_event_wait_node_set_event,
        (cudaGraphNode_t node, cudaEvent_t event), (node, event))
FORWARD(cudaGraphExecEventWaitNodeSetEvent, graph_exec_event_wait_node_set_event,
        (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event), (exec, node, event))

FORWARD(cudaGraphAddMemAllocNode, graph_add_mem_alloc_node,
        (NODE_PLACE, CUDA_MEM_ALLOC_NODE_PARAMS* parameters),
        (node, graph, after, count, parameters))
FORWARD(cudaGraphMemAllocNodeGetParams, graph_mem_alloc_node_get_params,
        (cudaGraphNode_t node, CUDA_MEM_ALLOC_NODE_PARAMS* parameters), (node, parameters))
FORWARD(cudaGraphAddMemFreeNode, graph_add_mem_free_node, (NODE_PLACE, void* pointer),
        (node, graph, after, count, reinterpret_cast<CUdeviceptr>(pointer)))
FORWARD(cudaGraphMemFreeNodeGetParams, graph_mem_free_node_get_params,
        (cudaGraphNode_t node, void* pointer), (node, static_cast<CUdeviceptr*>(pointer)))
