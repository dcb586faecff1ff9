// Capture of streams into graphs: begun, asked about, ended. The rules are in captures.cc.
#include "gpu/forward_client/api.h"
#include "gpu/forward_client/captures.h"

using namespace lambent::forward_client;

namespace {

bool is_mode(CUstreamCaptureMode mode) {
  return mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED;
}

CapturePoint* point_of(uint64_t stream) REQUIRES(state_mutex) {
  CapturePoint** found = state().captured_streams.find(stream);
  return found == nullptr ? nullptr : *found;
}

}  // namespace

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (!is_mode(mode)) return CUDA_ERROR_INVALID_VALUE;
  WITH_CONTEXT();
  List<GraphNode*> none;
  return begin_capture(number, *context, mode, nullptr, &none);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph handle,
                                     const CUgraphNode* dependencies, const CUgraphEdgeData* data,
                                     size_t count, CUstreamCaptureMode mode) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (!is_mode(mode)) return CUDA_ERROR_INVALID_VALUE;
  WITH_CONTEXT();
  Graph* graph = find_graph(handle);
  if (graph == nullptr || graph->capturing) return CUDA_ERROR_INVALID_VALUE;
  // It would go with its node.
  if (graph->parent != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  List<GraphNode*> frontier;
  CUresult result = find_dependencies(*graph, dependencies, data, count, &frontier);
  if (result == CUDA_SUCCESS) result = begin_capture(number, *context, mode, graph, &frontier);
  frontier.clear();
  return result;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (graph != nullptr) *graph = nullptr;
  const StateLock lock;
  return end_capture(number, graph);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (const CUresult result = connection_state()) return result;
  if (mode == nullptr || !is_mode(*mode)) return CUDA_ERROR_INVALID_VALUE;
  *mode = exchange_capture_mode(*mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  WITH_CONTEXT();
  return is_capturing(number, *context, status);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** dependencies,
                                   const CUgraphEdgeData** data, size_t* count) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (status == nullptr || (data != nullptr && dependencies == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  WITH_CONTEXT();
  if (const CUresult result = is_capturing(number, *context, status)) return result;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  CapturePoint& point = *point_of(number);
  point.told_nodes.empty();
  point.told_edges.empty();
  for (const GraphNode* node : point.frontier) {
    if (!point.told_nodes.add(handle_of(node)) || !point.told_edges.add({})) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  if (id != nullptr) *id = point.capture->id;
  if (graph != nullptr) *graph = handle_of(point.capture->graph);
  if (dependencies != nullptr) *dependencies = point.told_nodes.data();
  if (data != nullptr) *data = point.told_edges.data();
  if (count != nullptr) *count = point.told_nodes.count();
  return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* dependencies,
                                              const CUgraphEdgeData* data, size_t count,
                                              unsigned int flags) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  const StateLock lock;
  CapturePoint* point = point_of(number);
  if (point == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (point->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  List<GraphNode*> given;
  CUresult result = find_dependencies(*point->capture->graph, dependencies, data, count, &given);
  bool good = true;
  if (result == CUDA_SUCCESS && flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    // What the stream no longer depends on need not be joined.
    good = point->capture->waived.add_all(point->frontier);
    point->frontier.empty();
  }
  if (result == CUDA_SUCCESS) good &= merge(&point->frontier, given);
  given.clear();
  return good ? result : CUDA_ERROR_OUT_OF_MEMORY;
}
