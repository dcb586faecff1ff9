// Copies and fills of linear memory, in one, two and three dimensions.
#include "emulator/emulated_runtime/api.h"
#include "emulator/emulated_runtime/copies.h"

using namespace lambent::emulated_runtime;

namespace {

CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

CUresult copy(const Driver& cu, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cu.memcpy_h_to_d(address_of(to), from, bytes);
    case cudaMemcpyDeviceToHost:
      return cu.memcpy_d_to_h(to, address_of(from), bytes);
    case cudaMemcpyDeviceToDevice:
      return cu.memcpy_d_to_d(address_of(to), address_of(from), bytes);
    default:
      return cu.memcpy(address_of(to), address_of(from), bytes);
  }
}

CUresult copy_async(const Driver& cu, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                    cudaStream_t stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cu.memcpy_h_to_d_async(address_of(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return cu.memcpy_d_to_h_async(to, address_of(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return cu.memcpy_d_to_d_async(address_of(to), address_of(from), bytes, stream);
    default:
      return cu.memcpy_async(address_of(to), address_of(from), bytes, stream);
  }
}

}  // namespace

RUNTIME_API cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  WITH_CONTEXT();
  if (!is_kind(kind)) return record(cudaErrorInvalidMemcpyDirection);
  if (bytes == 0) return cudaSuccess;
  return record(copy(cu, to, from, bytes, kind));
}

RUNTIME_API cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  WITH_CONTEXT();
  if (!is_kind(kind)) return record(cudaErrorInvalidMemcpyDirection);
  if (bytes == 0) return cudaSuccess;
  return record(copy_async(cu, to, from, bytes, kind, stream));
}

RUNTIME_API cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  WITH_CONTEXT();
  CUcontext to_context, from_context;
  RETURN_IF_ERROR(primary_context(cu, to_device, &to_context));
  RETURN_IF_ERROR(primary_context(cu, from_device, &from_context));
  return record(cu.memcpy_peer_async(address_of(to), to_context, address_of(from), from_context,
                                     bytes, stream));
}

RUNTIME_API cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           size_t bytes) {
  WITH_CONTEXT();
  CUcontext to_context, from_context;
  RETURN_IF_ERROR(primary_context(cu, to_device, &to_context));
  RETURN_IF_ERROR(primary_context(cu, from_device, &from_context));
  return record(cu.memcpy_peer(address_of(to), to_context, address_of(from), from_context, bytes));
}

RUNTIME_API cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  WITH_CONTEXT();
  CUDA_MEMCPY2D plan;
  RETURN_IF_ERROR(plan_2d(to, to_pitch, from, from_pitch, width, height, kind, &plan));
  if (width == 0 || height == 0) return cudaSuccess;
  return record(cu.memcpy_2d_unaligned(&plan));
}

RUNTIME_API cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  WITH_CONTEXT();
  CUDA_MEMCPY2D plan;
  RETURN_IF_ERROR(plan_2d(to, to_pitch, from, from_pitch, width, height, kind, &plan));
  if (width == 0 || height == 0) return cudaSuccess;
  return record(cu.memcpy_2d_async(&plan, stream));
}

RUNTIME_API cudaGetSymbolAddress(void** pointer, const void* symbol) {
  WITH_CONTEXT();
  CUdeviceptr address = 0;
  size_t bytes = 0;
  if (!pointer) return record(cudaErrorInvalidValue);
  RETURN_IF_ERROR(Registry::get().find_variable(cu, symbol, &address, &bytes));
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

RUNTIME_API cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  WITH_CONTEXT();
  CUdeviceptr address = 0;
  if (!bytes) return record(cudaErrorInvalidValue);
  return record(Registry::get().find_variable(cu, symbol, &address, bytes));
}

RUNTIME_API cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  WITH_CONTEXT();
  char* to = nullptr;
  if (!to_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  RETURN_IF_ERROR(symbol_range(cu, symbol, bytes, offset, &to));
  return cudaMemcpy(to, from, bytes, kind);
}

RUNTIME_API cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  WITH_CONTEXT();
  char* from = nullptr;
  if (!from_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  RETURN_IF_ERROR(symbol_range(cu, symbol, bytes, offset, &from));
  return cudaMemcpy(to, from, bytes, kind);
}

RUNTIME_API cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  WITH_CONTEXT();
  char* to = nullptr;
  if (!to_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  RETURN_IF_ERROR(symbol_range(cu, symbol, bytes, offset, &to));
  return cudaMemcpyAsync(to, from, bytes, kind, stream);
}

RUNTIME_API cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  WITH_CONTEXT();
  char* from = nullptr;
  if (!from_symbol(kind)) return record(cudaErrorInvalidMemcpyDirection);
  RETURN_IF_ERROR(symbol_range(cu, symbol, bytes, offset, &from));
  return cudaMemcpyAsync(to, from, bytes, kind, stream);
}

RUNTIME_API cudaMemset(void* pointer, int value, size_t bytes) {
  WITH_CONTEXT();
  if (bytes == 0) return cudaSuccess;
  return record(cu.memset_d8(address_of(pointer), static_cast<unsigned char>(value), bytes));
}

RUNTIME_API cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  WITH_CONTEXT();
  if (bytes == 0) return cudaSuccess;
  return record(
      cu.memset_d8_async(address_of(pointer), static_cast<unsigned char>(value), bytes, stream));
}

RUNTIME_API cudaMemset2D(void* pointer, size_t pitch, int value, size_t width, size_t height) {
  WITH_CONTEXT();
  if (width == 0 || height == 0) return cudaSuccess;
  return record(cu.memset_2d_d8(address_of(pointer), pitch, static_cast<unsigned char>(value),
                                width, height));
}

RUNTIME_API cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  WITH_CONTEXT();
  if (width == 0 || height == 0) return cudaSuccess;
  return record(cu.memset_2d_d8_async(address_of(pointer), pitch, static_cast<unsigned char>(value),
                                      width, height, stream));
}

namespace {

// Calls fill(address, rows) for each run of rows that lie a pitch apart: all of them if the slices
// lie close together, else slice by slice.
template <class Fill>
cudaError_t fill_3d(const cudaPitchedPtr& pitched, const cudaExtent& extent, Fill fill) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return cudaSuccess;
  auto* slice = static_cast<char*>(pitched.ptr);
  if (pitched.ysize == extent.height || extent.depth == 1) {
    return fill(slice, extent.height * extent.depth);
  }
  for (size_t z = 0; z < extent.depth; z++, slice += pitched.pitch * pitched.ysize) {
    if (cudaError_t error = fill(slice, extent.height)) return error;
  }
  return cudaSuccess;
}

}  // namespace

RUNTIME_API cudaMemset3D(cudaPitchedPtr pitched, int value, cudaExtent extent) {
  return fill_3d(pitched, extent, [&](char* slice, size_t rows) {
    return cudaMemset2D(slice, pitched.pitch, value, extent.width, rows);
  });
}

RUNTIME_API cudaMemset3DAsync(cudaPitchedPtr pitched, int value, cudaExtent extent,
                              cudaStream_t stream) {
  return fill_3d(pitched, extent, [&](char* slice, size_t rows) {
    return cudaMemset2DAsync(slice, pitched.pitch, value, extent.width, rows, stream);
  });
}
