// Capture of streams into graphs: begun, asked about, ended. The rules are in capture.cc.
#include <algorithm>

#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

bool valid(CUstreamCaptureMode mode) {
  return mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED;
}

// The dependencies that a program names for a graph.
CUresult find_frontier(Process& process, const Graph& graph, const CUgraphNode* nodes,
                       const CUgraphEdgeData* data, size_t count, std::vector<Edge>* frontier)
    REQUIRES(process.graphs.mutex) {
  if (count && !nodes) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    frontier->push_back({process.graphs.node(nodes[i]), data ? data[i] : CUgraphEdgeData{}});
  }
  return graph.check_dependencies(*frontier);
}

// A legacy stream cannot capture; while a blocking stream does, it cannot even be asked.
CUresult check_legacy(Process& process, const Context& context, const Stream& stream)
    REQUIRES(process.graphs.mutex) {
  if (!stream.is_legacy()) return CUDA_SUCCESS;
  for (const auto& weak : process.captures) {
    auto capture = weak.lock();
    if (capture && !capture->ended && capture->context == &context && capture->blocks_legacy) {
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  return CUDA_SUCCESS;
}

CUstreamCaptureStatus status_of(const Stream& stream) {
  if (!stream.captured) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.captured->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                               : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

}  // namespace

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  WITH_STREAM(handle);
  if (!valid(mode)) return CUDA_ERROR_INVALID_VALUE;
  return begin_capture(*process, context, stream, mode, nullptr, {});
}

CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph_handle,
                                     const CUgraphNode* dependencies, const CUgraphEdgeData* data,
                                     size_t count, CUstreamCaptureMode mode) {
  WITH_STREAM(handle);
  std::shared_ptr<Graph> graph;
  std::vector<Edge> frontier;
  if (!valid(mode)) return CUDA_ERROR_INVALID_VALUE;
  {
    const lambent::MutexLock lock(process->graphs.mutex);
    Graph* found = process->graphs.graph(graph_handle);
    if (!found || found->capturing) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult result = find_frontier(*process, *found, dependencies, data, count, &frontier)) {
      return result;
    }
    graph = found->shared_from_this();
  }
  return begin_capture(*process, context, stream, mode, std::move(graph), std::move(frontier));
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* out) {
  WITH_STREAM(handle);
  if (out) *out = nullptr;
  return end_capture(*process, stream, out);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  WITH_PROCESS();
  if (!mode || !valid(*mode)) return CUDA_ERROR_INVALID_VALUE;
  *mode = exchange_capture_mode(*mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  WITH_STREAM(handle);
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  const lambent::MutexLock lock(process->graphs.mutex);
  if (CUresult result = check_legacy(*process, *context, *stream)) return result;
  *status = status_of(*stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** dependencies,
                                   const CUgraphEdgeData** data, size_t* count) {
  WITH_STREAM(handle);
  if (!status || (data && !dependencies)) return CUDA_ERROR_INVALID_VALUE;
  const lambent::MutexLock lock(process->graphs.mutex);
  if (CUresult result = check_legacy(*process, *context, *stream)) return result;
  *status = status_of(*stream);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  CapturePoint& point = *stream->captured;
  point.told_nodes.clear();
  point.told_edges.clear();
  for (const Edge& edge : point.frontier) {
    point.told_nodes.push_back(edge.node->handle());
    point.told_edges.push_back(edge.data);
  }
  if (id) *id = point.capture->id;
  if (graph) *graph = point.capture->graph->handle();
  if (dependencies) *dependencies = point.told_nodes.data();
  if (data) *data = point.told_edges.data();
  if (count) *count = point.told_nodes.size();
  return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* dependencies,
                                              const CUgraphEdgeData* data, size_t count,
                                              unsigned int flags) {
  WITH_STREAM(handle);
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  const lambent::MutexLock lock(process->graphs.mutex);
  if (!stream->captured) return CUDA_ERROR_ILLEGAL_STATE;
  CapturePoint& point = *stream->captured;
  if (point.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<Edge> given;
  if (CUresult result =
          find_frontier(*process, *point.capture->graph, dependencies, data, count, &given)) {
    return result;
  }
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    // What the stream no longer depends on need not be joined.
    for (const Edge& edge : point.frontier) point.capture->waived.push_back(edge);
    point.frontier.clear();
  }
  merge_edges(&point.frontier, given);
  return CUDA_SUCCESS;
}
