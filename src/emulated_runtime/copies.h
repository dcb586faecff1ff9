// From the runtime's words for a copy to the driver's: pure, any thread.
#pragma once

#include "emulated_runtime/runtime.h"

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

// A copy in one dimension in the words for three.
cudaError_t plan_1d(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                    CUDA_MEMCPY3D* plan);
// NOT_SUPPORTED where an array takes part: there are none.
cudaError_t plan_3d(const cudaMemcpy3DParms& parameters, CUDA_MEMCPY3D* plan);
cudaMemcpy3DParms parameters_of(const CUDA_MEMCPY3D& plan);

}  // namespace lambent::emulated_runtime
