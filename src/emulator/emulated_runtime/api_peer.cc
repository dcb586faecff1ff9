// Access of one device to another's memory.
#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

FORWARD(cudaDeviceCanAccessPeer, device_can_access_peer, (int* can, int device, int peer),
        (can, device, peer))
FORWARD(cudaDeviceGetP2PAttribute, device_get_p2p_attribute,
        (int* value, CUdevice_P2PAttribute attribute, int from, int to),
        (value, attribute, from, to))

RUNTIME_API cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  WITH_CONTEXT();
  CUcontext context = nullptr;
  RETURN_IF_ERROR(primary_context(cu, peer, &context));
  return record(cu.ctx_enable_peer_access(context, flags));
}

RUNTIME_API cudaDeviceDisablePeerAccess(int peer) {
  WITH_CONTEXT();
  CUcontext context = nullptr;
  RETURN_IF_ERROR(primary_context(cu, peer, &context));
  return record(cu.ctx_disable_peer_access(context));
}
