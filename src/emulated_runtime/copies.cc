#include "emulated_runtime/copies.h"

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

cudaError_t plan_1d(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                    CUDA_MEMCPY3D* plan) {
  cudaMemcpy3DParms parameters{};
  parameters.srcPtr = {const_cast<void*>(from), bytes, bytes, 1};
  parameters.dstPtr = {to, bytes, bytes, 1};
  parameters.extent = {bytes, 1, 1};
  parameters.kind = kind;
  return plan_3d(parameters, plan);
}

cudaError_t plan_3d(const cudaMemcpy3DParms& given, CUDA_MEMCPY3D* plan) {
  if (given.srcArray || given.dstArray) return cudaErrorNotSupported;
  if (!given.srcPtr.ptr || !given.dstPtr.ptr) return cudaErrorInvalidValue;
  if (!is_kind(given.kind)) return cudaErrorInvalidMemcpyDirection;
  if (given.extent.width > given.srcPtr.pitch || given.extent.width > given.dstPtr.pitch) {
    return cudaErrorInvalidPitchValue;
  }
  *plan = {};
  plan->srcXInBytes = given.srcPos.x;
  plan->srcY = given.srcPos.y;
  plan->srcZ = given.srcPos.z;
  plan->srcMemoryType = source_of(given.kind);
  plan->srcHost = given.srcPtr.ptr;
  plan->srcDevice = reinterpret_cast<CUdeviceptr>(given.srcPtr.ptr);
  plan->srcPitch = given.srcPtr.pitch;
  plan->srcHeight = given.srcPtr.ysize;
  plan->dstXInBytes = given.dstPos.x;
  plan->dstY = given.dstPos.y;
  plan->dstZ = given.dstPos.z;
  plan->dstMemoryType = target_of(given.kind);
  plan->dstHost = given.dstPtr.ptr;
  plan->dstDevice = reinterpret_cast<CUdeviceptr>(given.dstPtr.ptr);
  plan->dstPitch = given.dstPtr.pitch;
  plan->dstHeight = given.dstPtr.ysize;
  plan->WidthInBytes = given.extent.width;
  plan->Height = given.extent.height;
  plan->Depth = given.extent.depth;
  return cudaSuccess;
}

namespace {

void* end_of(CUmemorytype type, const void* host, CUdeviceptr device) {
  return type == CU_MEMORYTYPE_HOST ? const_cast<void*>(host) : reinterpret_cast<void*>(device);
}

cudaMemcpyKind kind_of(CUmemorytype from, CUmemorytype to) {
  if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
  if (from == CU_MEMORYTYPE_HOST) {
    return to == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  }
  return to == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

}  // namespace

cudaMemcpy3DParms parameters_of(const CUDA_MEMCPY3D& plan) {
  cudaMemcpy3DParms parameters{};
  parameters.srcPos = {plan.srcXInBytes, plan.srcY, plan.srcZ};
  parameters.srcPtr = {end_of(plan.srcMemoryType, plan.srcHost, plan.srcDevice), plan.srcPitch,
                       plan.srcPitch, plan.srcHeight};
  parameters.dstPos = {plan.dstXInBytes, plan.dstY, plan.dstZ};
  parameters.dstPtr = {end_of(plan.dstMemoryType, plan.dstHost, plan.dstDevice), plan.dstPitch,
                       plan.dstPitch, plan.dstHeight};
  parameters.extent = {plan.WidthInBytes, plan.Height, plan.Depth};
  parameters.kind = kind_of(plan.srcMemoryType, plan.dstMemoryType);
  return parameters;
}

}  // namespace lambent::emulated_runtime
