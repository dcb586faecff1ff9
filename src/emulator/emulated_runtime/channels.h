// The elements of arrays in the runtime's words, kinds and bits of channels, and in the driver's,
// formats. Pure, any thread.
#pragma once

#include "gpu/cuda_abi/runtime_types.h"

namespace lambent::emulated_runtime {

// INVALID_CHANNEL_DESCRIPTOR for what no array has; NOT_SUPPORTED for planar, normalised and
// compressed elements, which the emulated driver has not either.
cudaError_t format_of(const cudaChannelFormatDesc& channels, CUarray_format* format,
                      unsigned* count);

// Kind None where the format is no plain number.
cudaChannelFormatDesc channels_of(int format, unsigned count);

// Bytes of one element; 0 where the format is no plain number.
size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR& descriptor);

}  // namespace lambent::emulated_runtime
