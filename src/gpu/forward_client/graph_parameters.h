// What a node does, in the one form that all calls which say it come down to. Pure.
#pragma once

#include "gpu/cuda_abi/driver_types.h"

namespace lambent::forward_client {

inline CUgraphNodeParams of_type(CUgraphNodeType type) {
  CUgraphNodeParams what{};
  what.type = type;
  return what;
}
inline CUgraphNodeParams as_node(const CUDA_KERNEL_NODE_PARAMS& kernel) {
  CUgraphNodeParams what = of_type(CU_GRAPH_NODE_TYPE_KERNEL);
  what.kernel = kernel;
  return what;
}
inline CUgraphNodeParams as_node(const CUDA_MEMCPY3D& copy) {
  CUgraphNodeParams what = of_type(CU_GRAPH_NODE_TYPE_MEMCPY);
  what.memcpy.copyParams = copy;
  return what;
}
inline CUgraphNodeParams as_node(const CUDA_MEMSET_NODE_PARAMS& fill) {
  CUgraphNodeParams what = of_type(CU_GRAPH_NODE_TYPE_MEMSET);
  what.memset = {fill.dst,   fill.pitch,  fill.value, fill.elementSize,
                 fill.width, fill.height, nullptr};
  return what;
}
inline CUgraphNodeParams as_node(const CUDA_HOST_NODE_PARAMS& host) {
  CUgraphNodeParams what = of_type(CU_GRAPH_NODE_TYPE_HOST);
  what.host = host;
  return what;
}
inline CUgraphNodeParams as_node(CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams what = of_type(type);
  what.eventWait.event = event;
  return what;
}

// Bytes in a row: the host's where there is a pointer.
inline CUDA_MEMCPY3D line(void* to_host, CUdeviceptr to, const void* from_host, CUdeviceptr from,
                          size_t bytes) {
  CUDA_MEMCPY3D request{};
  request.srcMemoryType = from_host != nullptr ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  request.srcHost = from_host;
  request.srcDevice = from;
  request.dstMemoryType = to_host != nullptr ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  request.dstHost = to_host;
  request.dstDevice = to;
  request.WidthInBytes = bytes;
  request.Height = request.Depth = 1;
  return request;
}

// A copy of rows as one of a single layer.
inline CUDA_MEMCPY3D deepened(const CUDA_MEMCPY2D& r) {
  CUDA_MEMCPY3D request{};
  request.srcXInBytes = r.srcXInBytes;
  request.srcY = r.srcY;
  request.srcMemoryType = r.srcMemoryType;
  request.srcHost = r.srcHost;
  request.srcDevice = r.srcDevice;
  request.srcArray = r.srcArray;
  request.srcPitch = r.srcPitch;
  request.dstXInBytes = r.dstXInBytes;
  request.dstY = r.dstY;
  request.dstMemoryType = r.dstMemoryType;
  request.dstHost = r.dstHost;
  request.dstDevice = r.dstDevice;
  request.dstArray = r.dstArray;
  request.dstPitch = r.dstPitch;
  request.WidthInBytes = r.WidthInBytes;
  request.Height = r.Height;
  request.Depth = 1;
  return request;
}

}  // namespace lambent::forward_client
