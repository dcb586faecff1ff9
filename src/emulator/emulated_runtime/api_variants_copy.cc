// Copies and fills for programs compiled with a default stream for each thread.
#include "emulator/emulated_runtime/variants.h"

using namespace lambent::emulated_runtime;

namespace {

// For calls that wait: the work goes into the thread's own stream, and is over on return.
cudaError_t finish(cudaError_t submitted) {
  if (submitted) return submitted;
  WITH_CONTEXT();
  return record(cu.stream_synchronize(CU_STREAM_PER_THREAD));
}

}  // namespace

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
STREAM_LAST(cudaMemcpy2DToArrayAsync,
            (cudaArray_t array, size_t x_bytes, size_t y, const void* from, size_t pitch,
             size_t width, size_t height, cudaMemcpyKind kind),
            (array, x_bytes, y, from, pitch, width, height, kind))
STREAM_LAST(cudaMemcpy2DFromArrayAsync,
            (void* to, size_t pitch, cudaArray_const_t array, size_t x_bytes, size_t y,
             size_t width, size_t height, cudaMemcpyKind kind),
            (to, pitch, array, x_bytes, y, width, height, kind))
STREAM_LAST(cudaMemcpyToArrayAsync,
            (cudaArray_t array, size_t x_bytes, size_t y, const void* from, size_t bytes,
             cudaMemcpyKind kind),
            (array, x_bytes, y, from, bytes, kind))
STREAM_LAST(cudaMemcpyFromArrayAsync,
            (void* to, cudaArray_const_t array, size_t x_bytes, size_t y, size_t bytes,
             cudaMemcpyKind kind),
            (to, array, x_bytes, y, bytes, kind))
STREAM_LAST(cudaMemcpy3DAsync, (const cudaMemcpy3DParms* parameters), (parameters))
STREAM_LAST(cudaMemcpy3DPeerAsync, (const cudaMemcpy3DPeerParms* parameters), (parameters))
STREAM_LAST(cudaMemcpyBatchAsync,
            (void* const* to, const void* const* from, const size_t* sizes, size_t count,
             CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count),
            (to, from, sizes, count, attributes, indices, attribute_count))
STREAM_LAST(cudaMemcpy3DBatchAsync,
            (size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, unsigned long long flags),
            (count, operations, flags))

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

RUNTIME_API cudaMemcpy2DToArray_ptds(cudaArray_t array, size_t x_bytes, size_t y, const void* from,
                                     size_t pitch, size_t width, size_t height,
                                     cudaMemcpyKind kind) {
  return finish(cudaMemcpy2DToArrayAsync(array, x_bytes, y, from, pitch, width, height, kind,
                                         CU_STREAM_PER_THREAD));
}
RUNTIME_API cudaMemcpy2DFromArray_ptds(void* to, size_t pitch, cudaArray_const_t array,
                                       size_t x_bytes, size_t y, size_t width, size_t height,
                                       cudaMemcpyKind kind) {
  return finish(cudaMemcpy2DFromArrayAsync(to, pitch, array, x_bytes, y, width, height, kind,
                                           CU_STREAM_PER_THREAD));
}
RUNTIME_API cudaMemcpyToArray_ptds(cudaArray_t array, size_t x_bytes, size_t y, const void* from,
                                   size_t bytes, cudaMemcpyKind kind) {
  return finish(cudaMemcpyToArrayAsync(array, x_bytes, y, from, bytes, kind, CU_STREAM_PER_THREAD));
}
RUNTIME_API cudaMemcpyFromArray_ptds(void* to, cudaArray_const_t array, size_t x_bytes, size_t y,
                                     size_t bytes, cudaMemcpyKind kind) {
  return finish(cudaMemcpyFromArrayAsync(to, array, x_bytes, y, bytes, kind, CU_STREAM_PER_THREAD));
}
RUNTIME_API cudaMemcpy3D_ptds(const cudaMemcpy3DParms* parameters) {
  return finish(cudaMemcpy3DAsync(parameters, CU_STREAM_PER_THREAD));
}
RUNTIME_API cudaMemcpy3DPeer_ptds(const cudaMemcpy3DPeerParms* parameters) {
  return cudaMemcpy3DPeerAsync(parameters, CU_STREAM_PER_THREAD);
}

// Between arrays nothing goes through the host, and the whole context is in the same order.
RUNTIME_API cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x_bytes, size_t to_y,
                                     cudaArray_const_t from, size_t from_x_bytes, size_t from_y,
                                     size_t width, size_t height, cudaMemcpyKind kind);
RUNTIME_API cudaMemcpy2DArrayToArray_ptds(cudaArray_t to, size_t to_x_bytes, size_t to_y,
                                          cudaArray_const_t from, size_t from_x_bytes,
                                          size_t from_y, size_t width, size_t height,
                                          cudaMemcpyKind kind) {
  if (cudaError_t error = finish(cudaSuccess)) return error;
  return cudaMemcpy2DArrayToArray(to, to_x_bytes, to_y, from, from_x_bytes, from_y, width, height,
                                  kind);
}
RUNTIME_API cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x_bytes, size_t to_y,
                                   cudaArray_const_t from, size_t from_x_bytes, size_t from_y,
                                   size_t bytes, cudaMemcpyKind kind);
RUNTIME_API cudaMemcpyArrayToArray_ptds(cudaArray_t to, size_t to_x_bytes, size_t to_y,
                                        cudaArray_const_t from, size_t from_x_bytes, size_t from_y,
                                        size_t bytes, cudaMemcpyKind kind) {
  if (cudaError_t error = finish(cudaSuccess)) return error;
  return cudaMemcpyArrayToArray(to, to_x_bytes, to_y, from, from_x_bytes, from_y, bytes, kind);
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
