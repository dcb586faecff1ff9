// The older ABIs of graph and capture calls.
#include <cstdio>

#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1& given) {
  return {given.func,         given.gridDimX,  given.gridDimY,  given.gridDimZ,
          given.blockDimX,    given.blockDimY, given.blockDimZ, given.sharedMemBytes,
          given.kernelParams, given.extra,     nullptr,         nullptr};
}

// The first ABIs of instantiation tell in words what went wrong.
CUresult instantiate_with_log(CUgraphExec* exec, CUgraph graph, CUgraphNode* offender, char* log,
                              size_t bytes) {
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  CUresult result = cuGraphInstantiateWithParams(exec, graph, &parameters);
  if (offender) *offender = parameters.hErrNode_out;
  const char* text = result == CUDA_SUCCESS ? ""
                     : parameters.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                         ? "the graph has a cycle"
                         : "the graph cannot be instantiated";
  if (log && bytes) std::snprintf(log, bytes, "%s", text);
  return result;
}

// Whether edge data that the older calls cannot tell was lost.
bool lossy(const CUgraphEdgeData* data, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (data[i].type || data[i].from_port || data[i].to_port) return true;
  }
  return false;
}

}  // namespace

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* given) {
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  auto parameters = widened(*given);
  return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &parameters);
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  CUDA_KERNEL_NODE_PARAMS wide;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = cuGraphKernelNodeGetParams_v2(node, &wide)) return result;
  *out = {wide.func,      wide.gridDimX,  wide.gridDimY,       wide.gridDimZ,     wide.blockDimX,
          wide.blockDimY, wide.blockDimZ, wide.sharedMemBytes, wide.kernelParams, wide.extra};
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* given) {
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  auto parameters = widened(*given);
  return cuGraphKernelNodeSetParams_v2(node, &parameters);
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* given) {
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  auto parameters = widened(*given);
  return cuGraphExecKernelNodeSetParams_v2(exec, node, &parameters);
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
  if (!outcome) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);
  *outcome = info.result;
  if (offender) *offender = info.errorNode;
  return result;
}

CUresult cuStreamBeginCapture(CUstream s) {
  return cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult cuStreamGetCaptureInfo(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return cuStreamGetCaptureInfo_v3(s, status, id, nullptr, nullptr, nullptr, nullptr);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  const CUgraphNode* found = nullptr;
  const CUgraphEdgeData* data = nullptr;
  size_t length = 0;
  CUresult result = cuStreamGetCaptureInfo_v3(s, status, id, graph, &found, &data, &length);
  if (result || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return result;
  if (nodes && lossy(data, length)) return CUDA_ERROR_LOSSY_QUERY;
  if (nodes) *nodes = found;
  if (count) *count = length;
  return CUDA_SUCCESS;
}
CUresult cuStreamUpdateCaptureDependencies(CUstream s, CUgraphNode* nodes, size_t count,
                                           unsigned int flags) {
  return cuStreamUpdateCaptureDependencies_v2(s, nodes, nullptr, count, flags);
}
