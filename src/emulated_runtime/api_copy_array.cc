// Copies of rectangles and runs of bytes into arrays, out of them and between them.
#include <algorithm>

#include "emulated_runtime/api.h"
#include "emulated_runtime/channels.h"
#include "emulated_runtime/copies.h"

using namespace lambent::emulated_runtime;

namespace {

CUresult submit(const Driver& cu, const CUDA_MEMCPY2D& plan, bool asynchronous,
                cudaStream_t stream) {
  return asynchronous ? cu.memcpy_2d_async(&plan, stream) : cu.memcpy_2d_unaligned(&plan);
}

// Copies `bytes` bytes that lie one after the other, row after row in the array, in three
// rectangles at most: what is left of the first row, whole rows, the beginning of the last.
// fill(plan, offset) writes the end in linear memory into the plan.
template <class Fill>
cudaError_t copy_run(const Driver& cu, cudaArray_t array, bool into, size_t x_bytes, size_t y,
                     size_t bytes, bool asynchronous, cudaStream_t stream, Fill fill) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (CUresult result = cu.array_3d_get_descriptor(&descriptor, array)) return error_of(result);
  const size_t row_bytes = descriptor.Width * element_bytes(descriptor);
  const size_t rows = std::max<size_t>(1, descriptor.Height);
  if (x_bytes >= row_bytes || y >= rows) return cudaErrorInvalidValue;
  const size_t room = (rows - y) * row_bytes - x_bytes;
  if (descriptor.Depth != 0 || bytes > room) return cudaErrorInvalidValue;
  for (size_t done = 0; done < bytes;) {
    const size_t left = bytes - done;
    const size_t width = std::min(left, row_bytes - x_bytes);
    const size_t height = width == row_bytes ? left / row_bytes : 1;
    CUDA_MEMCPY2D plan{};
    (into ? plan.dstMemoryType : plan.srcMemoryType) = CU_MEMORYTYPE_ARRAY;
    (into ? plan.dstArray : plan.srcArray) = array;
    (into ? plan.dstXInBytes : plan.srcXInBytes) = x_bytes;
    (into ? plan.dstY : plan.srcY) = y;
    (into ? plan.srcPitch : plan.dstPitch) = width;
    plan.WidthInBytes = width;
    plan.Height = height;
    fill(&plan, done);
    if (CUresult result = submit(cu, plan, asynchronous, stream)) return error_of(result);
    done += width * height;
    y += height;
    x_bytes = 0;
  }
  return cudaSuccess;
}

cudaError_t run_to_array(cudaArray_t array, size_t x_bytes, size_t y, const void* from,
                         size_t bytes, cudaMemcpyKind kind, bool asynchronous,
                         cudaStream_t stream) {
  WITH_CONTEXT();
  if (!to_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  return record(copy_run(cu, array, true, x_bytes, y, bytes, asynchronous, stream,
                         [&](CUDA_MEMCPY2D* plan, size_t offset) {
                           plan->srcMemoryType = source_of(kind);
                           plan->srcHost = static_cast<const char*>(from) + offset;
                           plan->srcDevice = reinterpret_cast<CUdeviceptr>(plan->srcHost);
                         }));
}

cudaError_t run_from_array(void* to, cudaArray_t array, size_t x_bytes, size_t y, size_t bytes,
                           cudaMemcpyKind kind, bool asynchronous, cudaStream_t stream) {
  WITH_CONTEXT();
  if (!from_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  return record(copy_run(cu, array, false, x_bytes, y, bytes, asynchronous, stream,
                         [&](CUDA_MEMCPY2D* plan, size_t offset) {
                           plan->dstMemoryType = target_of(kind);
                           plan->dstHost = static_cast<char*>(to) + offset;
                           plan->dstDevice = reinterpret_cast<CUdeviceptr>(plan->dstHost);
                         }));
}

cudaError_t box_to_array(cudaArray_t array, size_t x_bytes, size_t y, const void* from,
                         size_t pitch, size_t width, size_t height, cudaMemcpyKind kind,
                         bool asynchronous, cudaStream_t stream) {
  WITH_CONTEXT();
  if (!to_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  if (width > pitch && height > 1) return record(cudaErrorInvalidPitchValue);
  if (width == 0 || height == 0) return cudaSuccess;
  CUDA_MEMCPY2D plan{};
  plan.srcMemoryType = source_of(kind);
  plan.srcHost = from;
  plan.srcDevice = reinterpret_cast<CUdeviceptr>(from);
  plan.srcPitch = std::max(pitch, width);
  plan.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  plan.dstArray = array;
  plan.dstXInBytes = x_bytes;
  plan.dstY = y;
  plan.WidthInBytes = width;
  plan.Height = height;
  return record(submit(cu, plan, asynchronous, stream));
}

cudaError_t box_from_array(void* to, size_t pitch, cudaArray_t array, size_t x_bytes, size_t y,
                           size_t width, size_t height, cudaMemcpyKind kind, bool asynchronous,
                           cudaStream_t stream) {
  WITH_CONTEXT();
  if (!from_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  if (width > pitch && height > 1) return record(cudaErrorInvalidPitchValue);
  if (width == 0 || height == 0) return cudaSuccess;
  CUDA_MEMCPY2D plan{};
  plan.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  plan.srcArray = array;
  plan.srcXInBytes = x_bytes;
  plan.srcY = y;
  plan.dstMemoryType = target_of(kind);
  plan.dstHost = to;
  plan.dstDevice = reinterpret_cast<CUdeviceptr>(to);
  plan.dstPitch = std::max(pitch, width);
  plan.WidthInBytes = width;
  plan.Height = height;
  return record(submit(cu, plan, asynchronous, stream));
}

}  // namespace

RUNTIME_API cudaMemcpy2DToArray(cudaArray_t array, size_t x_bytes, size_t y, const void* from,
                                size_t pitch, size_t width, size_t height, cudaMemcpyKind kind) {
  return box_to_array(array, x_bytes, y, from, pitch, width, height, kind, false, nullptr);
}
RUNTIME_API cudaMemcpy2DToArrayAsync(cudaArray_t array, size_t x_bytes, size_t y, const void* from,
                                     size_t pitch, size_t width, size_t height, cudaMemcpyKind kind,
                                     cudaStream_t stream) {
  return box_to_array(array, x_bytes, y, from, pitch, width, height, kind, true, stream);
}

RUNTIME_API cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t array, size_t x_bytes,
                                  size_t y, size_t width, size_t height, cudaMemcpyKind kind) {
  return box_from_array(to, pitch, array, x_bytes, y, width, height, kind, false, nullptr);
}
RUNTIME_API cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t array,
                                       size_t x_bytes, size_t y, size_t width, size_t height,
                                       cudaMemcpyKind kind, cudaStream_t stream) {
  return box_from_array(to, pitch, array, x_bytes, y, width, height, kind, true, stream);
}

RUNTIME_API cudaMemcpyToArray(cudaArray_t array, size_t x_bytes, size_t y, const void* from,
                              size_t bytes, cudaMemcpyKind kind) {
  return run_to_array(array, x_bytes, y, from, bytes, kind, false, nullptr);
}
RUNTIME_API cudaMemcpyToArrayAsync(cudaArray_t array, size_t x_bytes, size_t y, const void* from,
                                   size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return run_to_array(array, x_bytes, y, from, bytes, kind, true, stream);
}

RUNTIME_API cudaMemcpyFromArray(void* to, cudaArray_const_t array, size_t x_bytes, size_t y,
                                size_t bytes, cudaMemcpyKind kind) {
  return run_from_array(to, array, x_bytes, y, bytes, kind, false, nullptr);
}
RUNTIME_API cudaMemcpyFromArrayAsync(void* to, cudaArray_const_t array, size_t x_bytes, size_t y,
                                     size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return run_from_array(to, array, x_bytes, y, bytes, kind, true, stream);
}

RUNTIME_API cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x_bytes, size_t to_y,
                                     cudaArray_const_t from, size_t from_x_bytes, size_t from_y,
                                     size_t width, size_t height, cudaMemcpyKind kind) {
  WITH_CONTEXT();
  if (!between_arrays(kind)) return record(cudaErrorInvalidMemcpyDirection);
  if (width == 0 || height == 0) return cudaSuccess;
  CUDA_MEMCPY2D plan{};
  plan.srcMemoryType = plan.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  plan.srcArray = from;
  plan.srcXInBytes = from_x_bytes;
  plan.srcY = from_y;
  plan.dstArray = to;
  plan.dstXInBytes = to_x_bytes;
  plan.dstY = to_y;
  plan.WidthInBytes = width;
  plan.Height = height;
  return record(cu.memcpy_2d_unaligned(&plan));
}

RUNTIME_API cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x_bytes, size_t to_y,
                                   cudaArray_const_t from, size_t from_x_bytes, size_t from_y,
                                   size_t bytes, cudaMemcpyKind kind) {
  WITH_CONTEXT();
  if (!between_arrays(kind)) return record(cudaErrorInvalidMemcpyDirection);
  size_t to_offset = 0, from_offset = 0;
  RETURN_IF_ERROR(offset_in_array(cu, to, to_x_bytes, to_y, &to_offset));
  RETURN_IF_ERROR(offset_in_array(cu, from, from_x_bytes, from_y, &from_offset));
  return record(cu.memcpy_a_to_a(to, to_offset, from, from_offset, bytes));
}
