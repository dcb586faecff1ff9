// The same functions for programs compiled with a default stream for each thread: what is said of
// the default stream is then meant for the thread's own.
#include "emulator/emulated_runtime/api.h"
#include "emulator/emulated_runtime/variants.h"

using namespace lambent::emulated_runtime;

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
STREAM_FIRST(cudaStreamGetAttribute, (CUstreamAttrID attribute, CUstreamAttrValue* value),
             (attribute, value))
STREAM_FIRST(cudaStreamSetAttribute, (CUstreamAttrID attribute, const CUstreamAttrValue* value),
             (attribute, value))
STREAM_ONLY(cudaStreamSynchronize)
STREAM_ONLY(cudaStreamQuery)

RUNTIME_API cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from);
RUNTIME_API cudaStreamCopyAttributes_ptsz(cudaStream_t to, cudaStream_t from) {
  return cudaStreamCopyAttributes(own(to), own(from));
}

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
