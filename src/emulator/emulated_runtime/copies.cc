#include "emulator/emulated_runtime/copies.h"

#include "emulator/emulated_runtime/channels.h"

namespace lambent::emulated_runtime {

CUmemorytype source_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
    case cudaMemcpyHostToDevice:
      return CU_MEMORYTYPE_HOST;
    case cudaMemcpyDeviceToHost:
    case cudaMemcpyDeviceToDevice:
      return CU_MEMORYTYPE_DEVICE;
    default:
      return CU_MEMORYTYPE_UNIFIED;
  }
}

CUmemorytype target_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
    case cudaMemcpyDeviceToHost:
      return CU_MEMORYTYPE_HOST;
    case cudaMemcpyHostToDevice:
    case cudaMemcpyDeviceToDevice:
      return CU_MEMORYTYPE_DEVICE;
    default:
      return CU_MEMORYTYPE_UNIFIED;
  }
}

cudaError_t plan_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                    size_t height, cudaMemcpyKind kind, CUDA_MEMCPY2D* plan) {
  if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
  *plan = {};
  plan->srcMemoryType = source_of(kind);
  plan->srcHost = from;
  plan->srcDevice = reinterpret_cast<CUdeviceptr>(from);
  plan->srcPitch = from_pitch;
  plan->dstMemoryType = target_of(kind);
  plan->dstHost = to;
  plan->dstDevice = reinterpret_cast<CUdeviceptr>(to);
  plan->dstPitch = to_pitch;
  plan->WidthInBytes = width;
  plan->Height = height;
  return cudaSuccess;
}

namespace {

// Bytes of an element of the array; 1 without one.
cudaError_t find_element_bytes(const Driver& cu, cudaArray_t array, size_t* bytes) {
  *bytes = 1;
  if (!array) return cudaSuccess;
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (CUresult result = cu.array_3d_get_descriptor(&descriptor, array)) return error_of(result);
  *bytes = element_bytes(descriptor);
  return cudaSuccess;
}

// What the elements of a copy are: those of the arrays that take part, which must be the same.
cudaError_t find_unit(const Driver& cu, cudaArray_t from, cudaArray_t to, size_t* bytes) {
  size_t one = 1, other = 1;
  if (cudaError_t error = find_element_bytes(cu, from, &one)) return error;
  if (cudaError_t error = find_element_bytes(cu, to, &other)) return error;
  if (from && to && one != other) return cudaErrorInvalidValue;
  *bytes = from ? one : other;
  return cudaSuccess;
}

cudaMemcpyKind kind_of(CUmemorytype from, CUmemorytype to) {
  if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
  if (from == CU_MEMORYTYPE_HOST) {
    return to == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  }
  return to == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

cudaPitchedPtr end_of(CUmemorytype type, const void* host, CUdeviceptr device, size_t pitch,
                      size_t height) {
  if (type == CU_MEMORYTYPE_ARRAY) return {};
  void* address =
      type == CU_MEMORYTYPE_HOST ? const_cast<void*>(host) : reinterpret_cast<void*>(device);
  return {address, pitch, pitch, height};
}

}  // namespace

cudaError_t offset_in_array(const Driver& cu, cudaArray_t array, size_t x_bytes, size_t y,
                            size_t* offset) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (CUresult result = cu.array_3d_get_descriptor(&descriptor, array)) return error_of(result);
  const size_t row_bytes = descriptor.Width * element_bytes(descriptor);
  if (x_bytes >= row_bytes || y >= (descriptor.Height ? descriptor.Height : 1)) {
    return cudaErrorInvalidValue;
  }
  *offset = y * row_bytes + x_bytes;
  return cudaSuccess;
}

cudaError_t plan_1d(const Driver& cu, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                    CUDA_MEMCPY3D* plan) {
  cudaMemcpy3DParms parameters{};
  parameters.srcPtr = {const_cast<void*>(from), bytes, bytes, 1};
  parameters.dstPtr = {to, bytes, bytes, 1};
  parameters.extent = {bytes, 1, 1};
  parameters.kind = kind;
  return plan_3d(cu, parameters, plan);
}

cudaError_t plan_3d(const Driver& cu, const cudaMemcpy3DParms& given, CUDA_MEMCPY3D* plan) {
  const bool from_array = given.srcArray, to_array = given.dstArray;
  if (from_array == (given.srcPtr.ptr != nullptr)) return cudaErrorInvalidValue;
  if (to_array == (given.dstPtr.ptr != nullptr)) return cudaErrorInvalidValue;
  if (!is_kind(given.kind)) return cudaErrorInvalidMemcpyDirection;
  if (from_array && !from_symbol(given.kind)) return cudaErrorInvalidMemcpyDirection;
  if (to_array && !to_symbol(given.kind)) return cudaErrorInvalidMemcpyDirection;
  size_t unit = 1, width = 0, from_x = given.srcPos.x, to_x = given.dstPos.x;
  if (cudaError_t error = find_unit(cu, given.srcArray, given.dstArray, &unit)) return error;
  bool overflow = __builtin_mul_overflow(given.extent.width, unit, &width);
  if (from_array) overflow |= __builtin_mul_overflow(from_x, unit, &from_x);
  if (to_array) overflow |= __builtin_mul_overflow(to_x, unit, &to_x);
  if (overflow) return cudaErrorInvalidValue;
  if (!from_array && width > given.srcPtr.pitch) return cudaErrorInvalidPitchValue;
  if (!to_array && width > given.dstPtr.pitch) return cudaErrorInvalidPitchValue;
  *plan = {};
  plan->srcXInBytes = from_x;
  plan->srcY = given.srcPos.y;
  plan->srcZ = given.srcPos.z;
  plan->srcMemoryType = from_array ? CU_MEMORYTYPE_ARRAY : source_of(given.kind);
  plan->srcArray = given.srcArray;
  plan->srcHost = given.srcPtr.ptr;
  plan->srcDevice = reinterpret_cast<CUdeviceptr>(given.srcPtr.ptr);
  plan->srcPitch = given.srcPtr.pitch;
  plan->srcHeight = given.srcPtr.ysize;
  plan->dstXInBytes = to_x;
  plan->dstY = given.dstPos.y;
  plan->dstZ = given.dstPos.z;
  plan->dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : target_of(given.kind);
  plan->dstArray = given.dstArray;
  plan->dstHost = given.dstPtr.ptr;
  plan->dstDevice = reinterpret_cast<CUdeviceptr>(given.dstPtr.ptr);
  plan->dstPitch = given.dstPtr.pitch;
  plan->dstHeight = given.dstPtr.ysize;
  plan->WidthInBytes = width;
  plan->Height = given.extent.height;
  plan->Depth = given.extent.depth;
  return cudaSuccess;
}

cudaError_t parameters_of(const Driver& cu, const CUDA_MEMCPY3D& plan, cudaMemcpy3DParms* out) {
  const bool from_array = plan.srcMemoryType == CU_MEMORYTYPE_ARRAY;
  const bool to_array = plan.dstMemoryType == CU_MEMORYTYPE_ARRAY;
  cudaMemcpy3DParms parameters{};
  parameters.srcArray = from_array ? plan.srcArray : nullptr;
  parameters.dstArray = to_array ? plan.dstArray : nullptr;
  size_t unit = 1;
  if (cudaError_t error = find_unit(cu, parameters.srcArray, parameters.dstArray, &unit)) {
    return error;
  }
  parameters.srcPos = {plan.srcXInBytes / (from_array ? unit : 1), plan.srcY, plan.srcZ};
  parameters.srcPtr =
      end_of(plan.srcMemoryType, plan.srcHost, plan.srcDevice, plan.srcPitch, plan.srcHeight);
  parameters.dstPos = {plan.dstXInBytes / (to_array ? unit : 1), plan.dstY, plan.dstZ};
  parameters.dstPtr =
      end_of(plan.dstMemoryType, plan.dstHost, plan.dstDevice, plan.dstPitch, plan.dstHeight);
  parameters.extent = {plan.WidthInBytes / unit, plan.Height, plan.Depth};
  parameters.kind = kind_of(plan.srcMemoryType, plan.dstMemoryType);
  *out = parameters;
  return cudaSuccess;
}

}  // namespace lambent::emulated_runtime
