// From the runtime's words for a copy to the driver's, any thread. The driver is asked for nothing
// but the elements of arrays.
#pragma once

#include "emulator/emulated_runtime/runtime.h"

namespace lambent::emulated_runtime {

constexpr bool is_kind(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

// The kinds of memory at the two ends; `unified` where the address tells.
CUmemorytype source_of(cudaMemcpyKind kind);
CUmemorytype target_of(cudaMemcpyKind kind);

// INVALID_MEMCPY_DIRECTION for a kind that is none, INVALID_PITCH_VALUE for rows that overlap.
cudaError_t plan_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                    size_t height, cudaMemcpyKind kind, CUDA_MEMCPY2D* plan);

// Symbols are memory of the device; the other side may be either.
constexpr bool to_symbol(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}
constexpr bool from_symbol(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}

constexpr bool between_arrays(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

// Where byte `x_bytes` of row `y` lies in an array, whose rows count as one after the other.
cudaError_t offset_in_array(const Driver& cu, cudaArray_t array, size_t x_bytes, size_t y,
                            size_t* offset);

// A copy in one dimension in the words for three.
cudaError_t plan_1d(const Driver& cu, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                    CUDA_MEMCPY3D* plan);
// The runtime counts in elements where an array takes part, the driver in bytes. INVALID_VALUE
// unless there is one source and one target, and for arrays with different elements.
cudaError_t plan_3d(const Driver& cu, const cudaMemcpy3DParms& parameters, CUDA_MEMCPY3D* plan);
cudaError_t parameters_of(const Driver& cu, const CUDA_MEMCPY3D& plan,
                          cudaMemcpy3DParms* parameters);

}  // namespace lambent::emulated_runtime
