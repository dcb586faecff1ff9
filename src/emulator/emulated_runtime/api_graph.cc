// Graphs as a whole: made, looked at, instantiated, launched, updated.
#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

FORWARD(cudaGraphCreate, graph_create, (cudaGraph_t * graph, unsigned int flags), (graph, flags))
FORWARD(cudaGraphDestroy, graph_destroy, (cudaGraph_t graph), (graph))
FORWARD(cudaGraphClone, graph_clone, (cudaGraph_t * clone, cudaGraph_t graph), (clone, graph))
FORWARD(cudaGraphDebugDotPrint, graph_debug_dot_print,
        (cudaGraph_t graph, const char* path, unsigned int flags), (graph, path, flags))

FORWARD(cudaGraphNodeFindInClone, graph_node_find_in_clone,
        (cudaGraphNode_t * found, cudaGraphNode_t node, cudaGraph_t clone), (found, node, clone))
FORWARD(cudaGraphNodeGetType, graph_node_get_type, (cudaGraphNode_t node, CUgraphNodeType* type),
        (node, type))
FORWARD(cudaGraphGetNodes, graph_get_nodes,
        (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count), (graph, nodes, count))
FORWARD(cudaGraphGetRootNodes, graph_get_root_nodes,
        (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count), (graph, nodes, count))
FORWARD(cudaGraphGetEdges, graph_get_edges,
        (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, CUgraphEdgeData* data,
         size_t* count),
        (graph, from, to, data, count))
FORWARD(cudaGraphNodeGetDependencies, graph_node_get_dependencies,
        (cudaGraphNode_t node, cudaGraphNode_t* nodes, CUgraphEdgeData* data, size_t* count),
        (node, nodes, data, count))
FORWARD(cudaGraphNodeGetDependentNodes, graph_node_get_dependent_nodes,
        (cudaGraphNode_t node, cudaGraphNode_t* nodes, CUgraphEdgeData* data, size_t* count),
        (node, nodes, data, count))
FORWARD(cudaGraphAddDependencies, graph_add_dependencies,
        (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
         const CUgraphEdgeData* data, size_t count),
        (graph, from, to, data, count))
FORWARD(cudaGraphRemoveDependencies, graph_remove_dependencies,
        (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
         const CUgraphEdgeData* data, size_t count),
        (graph, from, to, data, count))
FORWARD(cudaGraphDestroyNode, graph_destroy_node, (cudaGraphNode_t node), (node))

FORWARD(cudaGraphInstantiateWithFlags, graph_instantiate,
        (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags), (exec, graph, flags))
FORWARD(cudaGraphInstantiate, graph_instantiate,
        (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags), (exec, graph, flags))
FORWARD(cudaGraphInstantiateWithParams, graph_instantiate_with_params,
        (cudaGraphExec_t * exec, cudaGraph_t graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters),
        (exec, graph, parameters))
FORWARD(cudaGraphExecUpdate, graph_exec_update,
        (cudaGraphExec_t exec, cudaGraph_t graph, CUgraphExecUpdateResultInfo* result),
        (exec, graph, result))
FORWARD(cudaGraphNodeSetEnabled, graph_node_set_enabled,
        (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int enabled), (exec, node, enabled))
FORWARD(cudaGraphNodeGetEnabled, graph_node_get_enabled,
        (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int* enabled), (exec, node, enabled))
FORWARD(cudaGraphUpload, graph_upload, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
FORWARD(cudaGraphLaunch, graph_launch, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
FORWARD(cudaGraphExecDestroy, graph_exec_destroy, (cudaGraphExec_t exec), (exec))

RUNTIME_API cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  WITH_CONTEXT();
  cuuint64_t found = 0;
  if (!flags) return record(cudaErrorInvalidValue);
  RETURN_IF_ERROR(cu.graph_exec_get_flags(exec, &found));
  *flags = found;
  return cudaSuccess;
}

FORWARD(cudaDeviceGraphMemTrim, device_graph_mem_trim, (int device), (device))
FORWARD(cudaDeviceGetGraphMemAttribute, device_get_graph_mem_attribute,
        (int device, CUgraphMem_attribute attribute, void* value), (device, attribute, value))
FORWARD(cudaDeviceSetGraphMemAttribute, device_set_graph_mem_attribute,
        (int device, CUgraphMem_attribute attribute, void* value), (device, attribute, value))

FORWARD(cudaUserObjectCreate, user_object_create,
        (cudaUserObject_t * object, void* pointer, cudaHostFn_t destroy, unsigned int references,
         unsigned int flags),
        (object, pointer, destroy, references, flags))
FORWARD(cudaUserObjectRetain, user_object_retain, (cudaUserObject_t object, unsigned int count),
        (object, count))
FORWARD(cudaUserObjectRelease, user_object_release, (cudaUserObject_t object, unsigned int count),
        (object, count))
FORWARD(cudaGraphRetainUserObject, graph_retain_user_object,
        (cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags),
        (graph, object, count, flags))
FORWARD(cudaGraphReleaseUserObject, graph_release_user_object,
        (cudaGraph_t graph, cudaUserObject_t object, unsigned int count), (graph, object, count))

RUNTIME_API cudaGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, cudaGraph_t graph,
                                             unsigned int value, unsigned int flags) {
  WITH_CONTEXT();
  CUcontext context = nullptr;
  RETURN_IF_ERROR(cu.ctx_get_current(&context));
  return record(cu.graph_conditional_handle_create(handle, graph, context, value, flags));
}
