// What a launch is checked for before it goes out, by itself or as a node of a graph, and how its
// parameters are packed. Any thread, under the StateLock.
#pragma once

#include "gpu/cuda_abi/driver_types.h"
#include "gpu/forward_client/state.h"

namespace lambent::forward_client {

struct LaunchShape {
  unsigned grid[3], block[3], shared_bytes;
};

// Whether any kernel could have it on this device.
bool is_possible(const LaunchShape& shape);
CUresult check_shape(const FunctionRecord& function, const LaunchShape& shape);
// Parameters as one piece of memory, from the form in which a program gives them.
CUresult pack_parameters(const FunctionRecord& function, void** parameters, void** extra,
                         char* packed);

}  // namespace lambent::forward_client
