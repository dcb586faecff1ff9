// What a node does, in the one form that all calls which say it come down to. Pure.
#pragma once

#include "cuda_abi/driver_types.h"

namespace lambent::forwarded_cuda {

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

}  // namespace lambent::forwarded_cuda
