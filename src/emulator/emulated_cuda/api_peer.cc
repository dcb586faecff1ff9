// Devices that reach each other's memory: who can, and who may.
#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  WITH_PROCESS();
  int from, to;
  if (!can) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(device, &from)) return result;
  if (CUresult result = process->device_of(peer, &to)) return result;
  *can = process->can_access_peer(from, to);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device,
                                 CUdevice peer) {
  WITH_PROCESS();
  int from, to;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(device, &from)) return result;
  if (CUresult result = process->device_of(peer, &to)) return result;
  if (from == to) return CUDA_ERROR_INVALID_DEVICE;
  Way way = process->way_to_peer(from, to);
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:  // lower is faster
      *value = way == Way::kNvlink ? 0 : 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      *value = way != Way::kStaged;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *value = way == Way::kNvlink;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags) {
  WITH_CONTEXT();
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  auto peer = process->contexts.find(handle);
  if (!peer || peer == context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!process->can_access_peer(context->device, peer->device)) {
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  bool fresh = process->peers.open(context.get(), context->device, peer.get(), peer->device);
  return fresh ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuCtxDisablePeerAccess(CUcontext handle) {
  WITH_CONTEXT();
  auto peer = process->contexts.find(handle);
  if (!peer) return CUDA_ERROR_INVALID_CONTEXT;
  return process->peers.close(context.get(), peer.get()) ? CUDA_SUCCESS
                                                         : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
