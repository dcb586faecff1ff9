// Copies of boxes between memory, arrays and devices, and batches of copies.
#include <cstring>

#include "emulator/emulated_runtime/api.h"
#include "emulator/emulated_runtime/copies.h"

using namespace lambent::emulated_runtime;

namespace {

bool empty(const cudaExtent& extent) { return !extent.width || !extent.height || !extent.depth; }

// The addresses say where they lie; the devices say whose contexts the two ends are to be of.
cudaError_t plan_peer(const Driver& cu, const cudaMemcpy3DPeerParms& given,
                      CUDA_MEMCPY3D_PEER* plan) {
  cudaMemcpy3DParms box{given.srcArray, given.srcPos, given.srcPtr, given.dstArray,
                        given.dstPos,   given.dstPtr, given.extent, cudaMemcpyDefault};
  CUDA_MEMCPY3D planned;
  if (cudaError_t error = plan_3d(cu, box, &planned)) return error;
  // The two requests differ only in what stands where the contexts are.
  static_assert(sizeof planned == sizeof *plan);
  std::memcpy(plan, &planned, sizeof planned);
  if (cudaError_t error = primary_context(cu, given.srcDevice, &plan->srcContext)) return error;
  return primary_context(cu, given.dstDevice, &plan->dstContext);
}

}  // namespace

RUNTIME_API cudaMemcpy3D(const cudaMemcpy3DParms* parameters) {
  WITH_CONTEXT();
  CUDA_MEMCPY3D plan;
  if (!parameters) return record(cudaErrorInvalidValue);
  RETURN_IF_ERROR(plan_3d(cu, *parameters, &plan));
  return empty(parameters->extent) ? cudaSuccess : record(cu.memcpy_3d(&plan));
}

RUNTIME_API cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
  WITH_CONTEXT();
  CUDA_MEMCPY3D plan;
  if (!parameters) return record(cudaErrorInvalidValue);
  RETURN_IF_ERROR(plan_3d(cu, *parameters, &plan));
  return empty(parameters->extent) ? cudaSuccess : record(cu.memcpy_3d_async(&plan, stream));
}

RUNTIME_API cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* parameters) {
  WITH_CONTEXT();
  CUDA_MEMCPY3D_PEER plan;
  if (!parameters) return record(cudaErrorInvalidValue);
  RETURN_IF_ERROR(plan_peer(cu, *parameters, &plan));
  return empty(parameters->extent) ? cudaSuccess : record(cu.memcpy_3d_peer(&plan));
}

RUNTIME_API cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* parameters, cudaStream_t stream) {
  WITH_CONTEXT();
  CUDA_MEMCPY3D_PEER plan;
  if (!parameters) return record(cudaErrorInvalidValue);
  RETURN_IF_ERROR(plan_peer(cu, *parameters, &plan));
  return empty(parameters->extent) ? cudaSuccess : record(cu.memcpy_3d_peer_async(&plan, stream));
}

// The driver reads the lists and does not keep them.
RUNTIME_API cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* sizes,
                                 size_t count, CUmemcpyAttributes* attributes, size_t* indices,
                                 size_t attribute_count, cudaStream_t stream) {
  WITH_CONTEXT();
  return record(cu.memcpy_batch_async_v2(
      reinterpret_cast<CUdeviceptr*>(const_cast<void**>(to)),
      reinterpret_cast<CUdeviceptr*>(const_cast<const void**>(from)), const_cast<size_t*>(sizes),
      count, attributes, indices, attribute_count, stream));
}

FORWARD(cudaMemcpy3DBatchAsync, memcpy_3d_batch_async_v2,
        (size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, unsigned long long flags,
         cudaStream_t stream),
        (count, operations, flags, stream))
