// Copies of rectangles and runs of bytes into arrays, out of them and between them.
#include <algorithm>

#include "emulator/emulated_runtime/api.h"
#include "emulator/emulated_runtime/channels.h"
#include "emulator/emulated_runtime/copies.h"

using namespace lambent::emulated_runtime;

namespace {

// One end of a rectangle: memory, or an array from a byte of a row of it on.
struct End {
  CUmemorytype type;
  const void* memory = nullptr;
  size_t pitch = 0;
  cudaArray_t array = nullptr;
  size_t x_bytes = 0, y = 0;
};

End in_array(cudaArray_t array, size_t x_bytes, size_t y) {
  return {CU_MEMORYTYPE_ARRAY, nullptr, 0, array, x_bytes, y};
}

CUDA_MEMCPY2D plan_of(const End& to, const End& from, size_t width, size_t height) {
  CUDA_MEMCPY2D plan{};
  plan.srcXInBytes = from.x_bytes;
  plan.srcY = from.y;
  plan.srcMemoryType = from.type;
  plan.srcHost = from.memory;
  plan.srcDevice = reinterpret_cast<CUdeviceptr>(from.memory);
  plan.srcArray = from.array;
  plan.srcPitch = from.pitch;
  plan.dstXInBytes = to.x_bytes;
  plan.dstY = to.y;
  plan.dstMemoryType = to.type;
  plan.dstHost = const_cast<void*>(to.memory);
  plan.dstDevice = reinterpret_cast<CUdeviceptr>(to.memory);
  plan.dstArray = to.array;
  plan.dstPitch = to.pitch;
  plan.WidthInBytes = width;
  plan.Height = height;
  return plan;
}

// A stream to copy in, or none: then the call waits.
struct Order {
  bool asynchronous = false;
  cudaStream_t stream = nullptr;
};

cudaError_t copy_rectangle(const Driver& cu, const End& to, const End& from, size_t width,
                           size_t height, const Order& order) {
  if (width == 0 || height == 0) return cudaSuccess;
  const CUDA_MEMCPY2D plan = plan_of(to, from, width, height);
  return error_of(order.asynchronous ? cu.memcpy_2d_async(&plan, order.stream)
                                     : cu.memcpy_2d_unaligned(&plan));
}

cudaError_t to_array(const End& array, const void* from, size_t pitch, size_t width, size_t height,
                     cudaMemcpyKind kind, const Order& order) {
  WITH_CONTEXT();
  if (!to_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  if (width > pitch && height > 1) return record(cudaErrorInvalidPitchValue);
  const End memory{source_of(kind), from, std::max(pitch, width)};
  return record(copy_rectangle(cu, array, memory, width, height, order));
}

cudaError_t from_array(void* to, size_t pitch, const End& array, size_t width, size_t height,
                       cudaMemcpyKind kind, const Order& order) {
  WITH_CONTEXT();
  if (!from_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  if (width > pitch && height > 1) return record(cudaErrorInvalidPitchValue);
  const End memory{target_of(kind), to, std::max(pitch, width)};
  return record(copy_rectangle(cu, memory, array, width, height, order));
}

// Calls copy(place in the array, offset in memory, width, height) for the rectangles that `bytes`
// bytes fill one after the other, row after row of the array: what is left of the first row, whole
// rows, the beginning of the last.
template <class Copy>
cudaError_t copy_run(End array, size_t bytes, Copy copy) {
  WITH_CONTEXT();
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  RETURN_IF_ERROR(cu.array_3d_get_descriptor(&descriptor, array.array));
  const size_t row_bytes = descriptor.Width * element_bytes(descriptor);
  const size_t rows = std::max<size_t>(1, descriptor.Height);
  const bool inside = descriptor.Depth == 0 && array.x_bytes < row_bytes && array.y < rows &&
                      bytes <= (rows - array.y) * row_bytes - array.x_bytes;
  if (!inside) return record(cudaErrorInvalidValue);
  for (size_t done = 0; done < bytes;) {
    const size_t left = bytes - done, width = std::min(left, row_bytes - array.x_bytes);
    const size_t height = width == row_bytes ? left / row_bytes : 1;
    if (cudaError_t error = copy(array, done, width, height)) return error;
    done += width * height;
    array.y += height;
    array.x_bytes = 0;
  }
  return cudaSuccess;
}

cudaError_t run_to_array(const End& array, const void* from, size_t bytes, cudaMemcpyKind kind,
                         const Order& order) {
  return copy_run(array, bytes, [&](const End& at, size_t offset, size_t width, size_t height) {
    return to_array(at, static_cast<const char*>(from) + offset, width, width, height, kind, order);
  });
}

cudaError_t run_from_array(void* to, const End& array, size_t bytes, cudaMemcpyKind kind,
                           const Order& order) {
  return copy_run(array, bytes, [&](const End& at, size_t offset, size_t width, size_t height) {
    return from_array(static_cast<char*>(to) + offset, width, at, width, height, kind, order);
  });
}

}  // namespace

RUNTIME_API cudaMemcpy2DToArray(cudaArray_t array, size_t x_bytes, size_t y, const void* from,
                                size_t pitch, size_t width, size_t height, cudaMemcpyKind kind) {
  return to_array(in_array(array, x_bytes, y), from, pitch, width, height, kind, {});
}
RUNTIME_API cudaMemcpy2DToArrayAsync(cudaArray_t array, size_t x_bytes, size_t y, const void* from,
                                     size_t pitch, size_t width, size_t height, cudaMemcpyKind kind,
                                     cudaStream_t stream) {
  return to_array(in_array(array, x_bytes, y), from, pitch, width, height, kind, {true, stream});
}

RUNTIME_API cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t array, size_t x_bytes,
                                  size_t y, size_t width, size_t height, cudaMemcpyKind kind) {
  return from_array(to, pitch, in_array(array, x_bytes, y), width, height, kind, {});
}
RUNTIME_API cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t array,
                                       size_t x_bytes, size_t y, size_t width, size_t height,
                                       cudaMemcpyKind kind, cudaStream_t stream) {
  return from_array(to, pitch, in_array(array, x_bytes, y), width, height, kind, {true, stream});
}

RUNTIME_API cudaMemcpyToArray(cudaArray_t array, size_t x_bytes, size_t y, const void* from,
                              size_t bytes, cudaMemcpyKind kind) {
  return run_to_array(in_array(array, x_bytes, y), from, bytes, kind, {});
}
RUNTIME_API cudaMemcpyToArrayAsync(cudaArray_t array, size_t x_bytes, size_t y, const void* from,
                                   size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return run_to_array(in_array(array, x_bytes, y), from, bytes, kind, {true, stream});
}

RUNTIME_API cudaMemcpyFromArray(void* to, cudaArray_const_t array, size_t x_bytes, size_t y,
                                size_t bytes, cudaMemcpyKind kind) {
  return run_from_array(to, in_array(array, x_bytes, y), bytes, kind, {});
}
RUNTIME_API cudaMemcpyFromArrayAsync(void* to, cudaArray_const_t array, size_t x_bytes, size_t y,
                                     size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return run_from_array(to, in_array(array, x_bytes, y), bytes, kind, {true, stream});
}

RUNTIME_API cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x_bytes, size_t to_y,
                                     cudaArray_const_t from, size_t from_x_bytes, size_t from_y,
                                     size_t width, size_t height, cudaMemcpyKind kind) {
  WITH_CONTEXT();
  if (!between_arrays(kind)) return record(cudaErrorInvalidMemcpyDirection);
  return record(copy_rectangle(cu, in_array(to, to_x_bytes, to_y),
                               in_array(from, from_x_bytes, from_y), width, height, {}));
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
