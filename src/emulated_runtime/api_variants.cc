// The same functions for programs compiled with a default stream for each thread: what is said of
// the default stream is then meant for the thread's own.
#include "emulated_runtime/api.h"
#include "emulated_runtime/copies.h"

using namespace lambent::emulated_runtime;

namespace {

cudaStream_t own(cudaStream_t stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

// For calls that wait: the work goes into the thread's own stream, and is over on return.
cudaError_t finish(cudaError_t submitted) {
  if (submitted) return submitted;
  WITH_CONTEXT();
  return record(cu.stream_synchronize(CU_STREAM_PER_THREAD));
}

}  // namespace

// STREAM_LAST((parameters before the stream), (their names)): name##_ptsz from name.
#define UNPACK(...) __VA_ARGS__
#define STREAM_LAST(name, parameters, names)                        \
  RUNTIME_API name(UNPACK parameters, cudaStream_t stream);         \
  RUNTIME_API name##_ptsz(UNPACK parameters, cudaStream_t stream) { \
    return name(UNPACK names, own(stream));                         \
  }
#define STREAM_FIRST(name, parameters, names)                       \
  RUNTIME_API name(cudaStream_t stream, UNPACK parameters);         \
  RUNTIME_API name##_ptsz(cudaStream_t stream, UNPACK parameters) { \
    return name(own(stream), UNPACK names);                         \
  }
#define STREAM_ONLY(name)                \
  RUNTIME_API name(cudaStream_t stream); \
  RUNTIME_API name##_ptsz(cudaStream_t stream) { return name(own(stream)); }

STREAM_LAST(cudaMemcpyAsync, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
            (to, from, bytes, kind))
STREAM_LAST(cudaMemcpy2DAsync,
            (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
             size_t height, cudaMemcpyKind kind),
            (to, to_pitch, from, from_pitch, width, height, kind))
STREAM_LAST(cudaMemcpyToSymbolAsync,
            (const void* symbol, const void* from, size_t bytes, size_t offset,
             cudaMemcpyKind kind),
            (symbol, from, bytes, offset, kind))
STREAM_LAST(cudaMemcpyFromSymbolAsync,
            (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
            (to, symbol, bytes, offset, kind))
STREAM_LAST(cudaMemsetAsync, (void* pointer, int value, size_t bytes), (pointer, value, bytes))
STREAM_LAST(cudaMemset2DAsync,
            (void* pointer, size_t pitch, int value, size_t width, size_t height),
            (pointer, pitch, value, width, height))
STREAM_LAST(cudaMemset3DAsync, (cudaPitchedPtr pitched, int value, cudaExtent extent),
            (pitched, value, extent))
STREAM_LAST(cudaLaunchKernel,
            (const void* function, dim3 grid, dim3 block, void** parameters, size_t shared_bytes),
            (function, grid, block, parameters, shared_bytes))
STREAM_LAST(cudaLaunchCooperativeKernel,
            (const void* function, dim3 grid, dim3 block, void** parameters, size_t shared_bytes),
            (function, grid, block, parameters, shared_bytes))
STREAM_LAST(__cudaLaunchKernel,
            (cudaKernel_t kernel, dim3 grid, dim3 block, void** parameters, size_t shared_bytes),
            (kernel, grid, block, parameters, shared_bytes))
STREAM_LAST(cudaEventRecord, (cudaEvent_t event), (event))
STREAM_FIRST(cudaStreamWaitEvent, (cudaEvent_t event, unsigned int flags), (event, flags))
STREAM_FIRST(cudaStreamAddCallback,
             (cudaStreamCallback_t callback, void* user_data, unsigned int flags),
             (callback, user_data, flags))
STREAM_FIRST(cudaLaunchHostFunc, (cudaHostFn_t function, void* user_data), (function, user_data))
STREAM_FIRST(cudaStreamGetPriority, (int* priority), (priority))
STREAM_FIRST(cudaStreamGetFlags, (unsigned int* flags), (flags))
STREAM_FIRST(cudaStreamGetId, (unsigned long long* id), (id))
STREAM_FIRST(cudaStreamGetDevice, (int* device), (device))
STREAM_FIRST(cudaStreamIsCapturing, (CUstreamCaptureStatus * status), (status))
STREAM_LAST(cudaMallocAsync, (void** pointer, size_t bytes), (pointer, bytes))
STREAM_LAST(cudaFreeAsync, (void* pointer), (pointer))
STREAM_LAST(cudaMallocFromPoolAsync, (void** pointer, size_t bytes, cudaMemPool_t pool),
            (pointer, bytes, pool))
STREAM_LAST(cudaGraphLaunch, (cudaGraphExec_t exec), (exec))
STREAM_LAST(cudaGraphUpload, (cudaGraphExec_t exec), (exec))
STREAM_FIRST(cudaStreamBeginCapture, (CUstreamCaptureMode mode), (mode))
STREAM_FIRST(cudaStreamBeginCaptureToGraph,
             (cudaGraph_t graph, const cudaGraphNode_t* dependencies, const CUgraphEdgeData* data,
              size_t count, CUstreamCaptureMode mode),
             (graph, dependencies, data, count, mode))
STREAM_FIRST(cudaStreamEndCapture, (cudaGraph_t * graph), (graph))
STREAM_FIRST(cudaStreamUpdateCaptureDependencies,
             (cudaGraphNode_t * nodes, const CUgraphEdgeData* data, size_t count,
              unsigned int flags),
             (nodes, data, count, flags))
STREAM_FIRST(cudaStreamGetCaptureInfo,
             (CUstreamCaptureStatus * status, unsigned long long* id, cudaGraph_t* graph,
              const cudaGraphNode_t** nodes, const CUgraphEdgeData** data, size_t* count),
             (status, id, graph, nodes, data, count))
STREAM_LAST(cudaMemPrefetchAsync,
            (const void* pointer, size_t bytes, CUmemLocation location, unsigned int flags),
            (pointer, bytes, location, flags))
STREAM_LAST(cudaMemPrefetchBatchAsync,
            (void** pointers, size_t* bytes, size_t count, CUmemLocation* locations, size_t* first,
             size_t location_count, unsigned long long flags),
            (pointers, bytes, count, locations, first, location_count, flags))
STREAM_LAST(cudaMemDiscardBatchAsync,
            (void** pointers, size_t* bytes, size_t count, unsigned long long flags),
            (pointers, bytes, count, flags))
STREAM_LAST(cudaMemDiscardAndPrefetchBatchAsync,
            (void** pointers, size_t* bytes, size_t count, CUmemLocation* locations, size_t* first,
             size_t location_count, unsigned long long flags),
            (pointers, bytes, count, locations, first, location_count, flags))
STREAM_FIRST(cudaStreamAttachMemAsync, (void* pointer, size_t bytes, unsigned int flags),
             (pointer, bytes, flags))
STREAM_ONLY(cudaStreamSynchronize)
STREAM_ONLY(cudaStreamQuery)

RUNTIME_API cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags);
RUNTIME_API cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream,
                                          unsigned int flags) {
  return cudaEventRecordWithFlags(event, own(stream), flags);
}

RUNTIME_API cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** parameters);
RUNTIME_API cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* function,
                                     void** parameters) {
  if (!config) return record(cudaErrorInvalidValue);
  cudaLaunchConfig_t mine = *config;
  mine.stream = own(mine.stream);
  return cudaLaunchKernelExC(&mine, function, parameters);
}

RUNTIME_API cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* parameters);
RUNTIME_API cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters) parameters->hUploadStream = own(parameters->hUploadStream);
  return cudaGraphInstantiateWithParams(exec, graph, parameters);
}

RUNTIME_API cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return finish(cudaMemcpyAsync(to, from, bytes, kind, CU_STREAM_PER_THREAD));
}
RUNTIME_API cudaMemcpy2D_ptds(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind) {
  return finish(
      cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, CU_STREAM_PER_THREAD));
}
RUNTIME_API cudaMemcpyToSymbol_ptds(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind) {
  return finish(cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, CU_STREAM_PER_THREAD));
}
RUNTIME_API cudaMemcpyFromSymbol_ptds(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind) {
  return finish(cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, CU_STREAM_PER_THREAD));
}

// Fills do not wait.
RUNTIME_API cudaMemset_ptds(void* pointer, int value, size_t bytes) {
  return cudaMemsetAsync(pointer, value, bytes, CU_STREAM_PER_THREAD);
}
RUNTIME_API cudaMemset2D_ptds(void* pointer, size_t pitch, int value, size_t width, size_t height) {
  return cudaMemset2DAsync(pointer, pitch, value, width, height, CU_STREAM_PER_THREAD);
}
RUNTIME_API cudaMemset3D_ptds(cudaPitchedPtr pitched, int value, cudaExtent extent) {
  return cudaMemset3DAsync(pitched, value, extent, CU_STREAM_PER_THREAD);
}

// Entry points of the driver, in the form for a default stream for each thread.
RUNTIME_API cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                             unsigned int version, unsigned long long flags,
                                             CUdriverProcAddressQueryResult* status);
RUNTIME_API cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function,
                                                  unsigned int version, unsigned long long flags,
                                                  CUdriverProcAddressQueryResult* status) {
  if (flags == CU_GET_PROC_ADDRESS_DEFAULT) flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  return cudaGetDriverEntryPointByVersion(symbol, function, version, flags, status);
}
RUNTIME_API cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function,
                                         unsigned long long flags,
                                         CUdriverProcAddressQueryResult* status) {
  return cudaGetDriverEntryPointByVersion_ptsz(symbol, function, CUDART_VERSION, flags, status);
}
