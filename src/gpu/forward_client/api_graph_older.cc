// The older names of graph and capture calls.
#include <cstring>

#include "gpu/forward_client/api.h"

using namespace lambent::forward_client;

namespace {

// The first form has neither a kernel of a library nor a context.
CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1& narrow) {
  CUDA_KERNEL_NODE_PARAMS wide{};
  static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS, kern) >= sizeof(narrow));
  std::memcpy(&wide, &narrow, sizeof(narrow));
  return wide;
}

// The first forms tell in words what went wrong.
CUresult instantiate_with_log(CUgraphExec* exec, CUgraph graph, CUgraphNode* offender, char* log,
                              size_t bytes) {
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  const CUresult result = cuGraphInstantiateWithParams(exec, graph, &parameters);
  if (offender != nullptr) *offender = parameters.hErrNode_out;
  if (log == nullptr || bytes == 0) return result;
  const char* text = result == CUDA_SUCCESS ? "" : "the graph cannot be instantiated";
  const size_t length = std::strlen(text) < bytes ? std::strlen(text) : bytes - 1;
  std::memcpy(log, text, length);
  log[length] = '\0';
  return result;
}

}  // namespace

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* given) {
  if (given == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS wide = widened(*given);
  return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &wide);
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  CUDA_KERNEL_NODE_PARAMS wide{};
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = cuGraphKernelNodeGetParams_v2(node, &wide);
  if (result == CUDA_SUCCESS) std::memcpy(out, &wide, sizeof(*out));
  return result;
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* given) {
  if (given == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS wide = widened(*given);
  return cuGraphKernelNodeSetParams_v2(node, &wide);
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* given) {
  if (given == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS wide = widened(*given);
  return cuGraphExecKernelNodeSetParams_v2(exec, node, &wide);
}
CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                        size_t count, CUgraphNodeParams* parameters) {
  return cuGraphAddNode_v2(node, graph, dependencies, nullptr, count, parameters);
}
CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return cuGraphGetEdges_v2(graph, from, to, nullptr, count);
}
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* dependencies, size_t* count) {
  return cuGraphNodeGetDependencies_v2(node, dependencies, nullptr, count);
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* dependents, size_t* count) {
  return cuGraphNodeGetDependentNodes_v2(node, dependents, nullptr, count);
}
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, nullptr, count);
}
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t count) {
  return cuGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}
CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* offender, char* log,
                            size_t bytes) {
  return instantiate_with_log(exec, graph, offender, log, bytes);
}
CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* offender, char* log,
                               size_t bytes) {
  return instantiate_with_log(exec, graph, offender, log, bytes);
}
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* offender,
                           CUgraphExecUpdateResult* outcome) {
  CUgraphExecUpdateResultInfo info{};
  if (outcome == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);
  *outcome = info.result;
  if (offender != nullptr) *offender = info.errorNode;
  return result;
}

CUresult cuStreamBeginCapture(CUstream stream) {
  return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, nullptr, count);
}
CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count,
                                           unsigned int flags) {
  return cuStreamUpdateCaptureDependencies_v2(stream, nodes, nullptr, count, flags);
}
