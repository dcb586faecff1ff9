// The capture of streams into graphs.
#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

FORWARD(cudaStreamBeginCapture, stream_begin_capture,
        (cudaStream_t stream, CUstreamCaptureMode mode), (stream, mode))
FORWARD(cudaStreamBeginCaptureToGraph, stream_begin_capture_to_graph,
        (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
         const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode),
        (stream, graph, dependencies, data, count, mode))
FORWARD(cudaStreamEndCapture, stream_end_capture, (cudaStream_t stream, cudaGraph_t* graph),
        (stream, graph))
FORWARD(cudaThreadExchangeStreamCaptureMode, thread_exchange_stream_capture_mode,
        (CUstreamCaptureMode * mode), (mode))
FORWARD(cudaStreamUpdateCaptureDependencies, stream_update_capture_dependencies,
        (cudaStream_t stream, cudaGraphNode_t* nodes, const CUgraphEdgeData* data, size_t count,
         unsigned int flags),
        (stream, nodes, data, count, flags))

RUNTIME_API cudaStreamGetCaptureInfo(cudaStream_t stream, CUstreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const CUgraphEdgeData** data,
                                     size_t* count) {
  WITH_CONTEXT();
  cuuint64_t number = 0;
  RETURN_IF_ERROR(cu.stream_get_capture_info(stream, status, &number, graph, nodes, data, count));
  if (id) *id = number;
  return cudaSuccess;
}
