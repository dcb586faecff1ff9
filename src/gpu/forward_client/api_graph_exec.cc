// Executable graphs: made by the executor of an image of the graph, changed there, launched with
// one call.
#include "gpu/forward_client/api.h"
#include "gpu/forward_client/captures.h"
#include "gpu/forward_client/drafts.h"
#include "gpu/forward_client/executables.h"
#include "gpu/forward_client/graph_parameters.h"

using namespace lambent::forward_client;

namespace {

constexpr cuuint64_t kKnownFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

CUresult instantiate(CUgraphExec* out, CUgraph handle, cuuint64_t flags,
                     CUgraphInstantiateResult* outcome, CUgraphNode* offender) {
  *outcome = CUDA_GRAPH_INSTANTIATE_ERROR;
  *offender = nullptr;
  Draft draft;
  {
    WITH_CONTEXT();
    const Graph* graph = find_graph(handle);
    if (out == nullptr || graph == nullptr || graph->capturing) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
    // Kernels that launch graphs would need the executor's handles.
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    draft.context = context->number;
    draft.graph = clone(*graph, false);
    GraphNode* wrong = nullptr;
    const CUresult result = write(&draft, &wrong);
    if (wrong != nullptr) *offender = reinterpret_cast<CUgraphNode>(wrong->original);
    if (result == CUDA_ERROR_INVALID_VALUE) *outcome = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    if (result != CUDA_SUCCESS) return result;
  }
  uint64_t number = 0;
  const CUresult result = instantiate(&draft, flags, &number, offender);
  if (result != CUDA_SUCCESS) return result;
  *outcome = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  *out = handle_for<CUgraphExec>(number);
  return CUDA_SUCCESS;
}

// One node of an executable graph, again.
CUresult change(CUgraphExec exec, CUgraphNode handle, const CUgraphNodeParams& what) {
  uint64_t number = 0, place = 0;
  GraphNode fresh{};
  GraphImage image;
  CUresult result = CUDA_SUCCESS;
  {
    WITH_CONTEXT();
    Executable* executable = find_executable(exec);
    GraphNode* twin = executable == nullptr ? nullptr : find_twin(*executable, handle);
    if (twin == nullptr || twin->what.type != what.type || twin->child != nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    number = executable->number;
    place = twin->place;
    fresh.graph = twin->graph;
    fresh.what.type = what.type;
    fresh.cooperative = twin->cooperative;
    fresh.has_priority = twin->has_priority;
    fresh.priority = twin->priority;
    fresh.enabled = twin->enabled;
    result = change_node(fresh, what);
    if (result == CUDA_SUCCESS) result = write_node(fresh, executable->context, &image);
    if (image.size > lambent::forward_ring::kMostInlineBytes) result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS) {
      free_image(&image);
      free_node_work(&fresh);
      return result;
    }
  }
  result =
      ask(make_call(CallCode::kSetGraphNode, number, place), nullptr, 0, {image.bytes, image.size});
  const StateLock lock;
  Executable** found = state().executables.find(number);
  if (result == CUDA_SUCCESS && found != nullptr) {
    GraphNode* twin = (*found)->by_place[place];
    if (twin->token != 0) {
      (*found)->tokens.remove(twin->token);
      retire(twin->token);
    }
    move_node_work(&fresh, twin);
    if (twin->token != 0 && (*found)->tokens.add(twin->token)) image.tokens.empty();
  }
  free_image(&image);
  free_node_work(&fresh);
  return result;
}

// A launch into a capturing stream is a child graph.
CUresult capture_launch(CapturePoint& point, const Executable& executable) REQUIRES(state_mutex) {
  Graph* graph = clone(*executable.graph, true);
  if (graph == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  CUgraphNodeParams what = of_type(CU_GRAPH_NODE_TYPE_GRAPH);
  what.graph.graph = handle_of(graph);
  const CUresult result = capture_node(point, what);
  free_graph(graph);
  return result;
}

}  // namespace

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  CUgraphInstantiateResult outcome;
  CUgraphNode offender;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) return CUDA_ERROR_INVALID_VALUE;
  return instantiate(out, graph, flags, &outcome, &offender);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = instantiate(out, graph, parameters->flags, &parameters->result_out,
                                      &parameters->hErrNode_out);
  if (result != CUDA_SUCCESS) return result;
  if ((parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) == 0) return CUDA_SUCCESS;
  return cuGraphUpload(*out, parameters->hUploadStream);
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  WITH_CONTEXT();
  const Executable* executable = find_executable(exec);
  if (executable == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = executable->flags;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  if (const CUresult result = connection_state()) return result;
  {
    const StateLock lock;
    Executable* executable = find_executable(exec);
    if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const bool is_there = State::has_context(executable->context);
    free_executable(executable);
    if (!is_there) return CUDA_SUCCESS;  // it went with its context
  }
  return send(make_call(CallCode::kDestroyGraph, number_of(exec)));
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  {
    WITH_CONTEXT();
    if (find_executable(exec) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = refuse_if_capturing(number, *context)) return result;
  }
  return send(make_call(CallCode::kUploadGraph, number_of(exec), number));
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  {
    WITH_CONTEXT();
    const Executable* executable = find_executable(exec);
    if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!State::has_context(executable->context)) return CUDA_ERROR_INVALID_CONTEXT;
    CapturePoint* point = nullptr;
    if (const CUresult result = find_point(number, *context, &point)) return result;
    if (point != nullptr) return capture_launch(*point, *executable);
    for (const uint64_t token : executable->tokens) {
      HostCall* call = state().host_calls.find(token);
      if (call != nullptr) ++call->pending;
    }
  }
  const CUresult result = send(make_call(CallCode::kLaunchGraph, number_of(exec), number));
  if (result == CUDA_SUCCESS) return result;
  const StateLock lock;
  const Executable* executable = find_executable(exec);
  if (executable == nullptr) return result;
  for (const uint64_t token : executable->tokens) came_by(token);
  return result;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                  CUgraphNodeParams* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (parameters->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    return cuGraphExecChildGraphNodeSetParams(exec, node, parameters->graph.graph);
  }
  return change(exec, node, *parameters);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return change(exec, node, as_node(*parameters));
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return change(exec, node, as_node(*parameters));
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return change(exec, node, as_node(*parameters));
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return change(exec, node, as_node(*parameters));
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return change(exec, node, as_node(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return change(exec, node, as_node(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

// All of the executable graph again, with another child in this place.
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  Draft draft;
  {
    WITH_CONTEXT();
    Executable* executable = find_executable(exec);
    GraphNode* twin = executable == nullptr ? nullptr : find_twin(*executable, node);
    const Graph* wanted = find_graph(child);
    if (twin == nullptr || twin->child == nullptr || wanted == nullptr || wanted->capturing) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    Graph* fresh = clone(*wanted, false);
    if (fresh == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    draft.context = executable->context;
    // For as long as the copy is made, the child is the new one.
    Graph* old = twin->child;
    twin->child = fresh;
    draft.graph = clone(*executable->graph, false);
    twin->child = old;
    free_graph(fresh);
    GraphNode* wrong = nullptr;
    if (const CUresult result = write(&draft, &wrong)) return result;
  }
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = update(number_of(exec), &draft, &info);
  return result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph handle, CUgraphExecUpdateResultInfo* info) {
  Draft draft;
  if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  {
    WITH_CONTEXT();
    const Executable* executable = find_executable(exec);
    const Graph* graph = find_graph(handle);
    if (executable == nullptr || graph == nullptr || graph->capturing) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    draft.context = executable->context;
    draft.graph = clone(*graph, false);
    GraphNode* wrong = nullptr;
    if (const CUresult result = write(&draft, &wrong)) {
      if (wrong != nullptr) info->errorNode = reinterpret_cast<CUgraphNode>(wrong->original);
      return result;
    }
  }
  return update(number_of(exec), &draft, info);
}

// What runs here is left out here; the executor leaves out the rest.
CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode handle, unsigned int enabled) {
  uint64_t number = 0, place = 0;
  {
    WITH_CONTEXT();
    Executable* executable = find_executable(exec);
    GraphNode* twin = executable == nullptr ? nullptr : find_twin(*executable, handle);
    if (twin == nullptr || enabled > 1) return CUDA_ERROR_INVALID_VALUE;
    if (twin->what.type > CU_GRAPH_NODE_TYPE_MEMSET) return CUDA_ERROR_INVALID_VALUE;
    twin->enabled = enabled != 0;
    if (HostCall* call = state().host_calls.find(twin->token)) {
      call->disabled = enabled == 0;
      return CUDA_SUCCESS;
    }
    number = executable->number;
    place = twin->place;
  }
  return ask(make_call(CallCode::kEnableGraphNode, number, place, enabled));
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode handle, unsigned int* enabled) {
  WITH_CONTEXT();
  Executable* executable = find_executable(exec);
  const GraphNode* twin = executable == nullptr ? nullptr : find_twin(*executable, handle);
  if (twin == nullptr || enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (twin->what.type > CU_GRAPH_NODE_TYPE_MEMSET) return CUDA_ERROR_INVALID_VALUE;
  *enabled = twin->enabled ? 1 : 0;
  return CUDA_SUCCESS;
}
