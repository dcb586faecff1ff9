// own_stream for the runtime's own structures. For the code that tools/generate_stream_variants.py
// writes.
#pragma once

#include "gpu/cuda_abi/own_stream.h"
#include "gpu/cuda_abi/runtime_types.h"

namespace lambent {

inline OwnConfig<cudaLaunchConfig_t, &cudaLaunchConfig_t::stream> own_stream(
    const cudaLaunchConfig_t* given) {
  return OwnConfig<cudaLaunchConfig_t, &cudaLaunchConfig_t::stream>(given);
}

}  // namespace lambent
