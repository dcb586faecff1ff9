// CUDA arrays: made, described, freed.
#include "emulator/emulated_runtime/api.h"
#include "emulator/emulated_runtime/channels.h"

using namespace lambent::emulated_runtime;

namespace {

cudaError_t describe(const cudaChannelFormatDesc* channels, const cudaExtent& extent,
                     unsigned flags, CUDA_ARRAY3D_DESCRIPTOR* out) {
  if (!channels) return cudaErrorInvalidValue;
  CUarray_format format;
  unsigned count = 0;
  if (cudaError_t error = format_of(*channels, &format, &count)) return error;
  *out = {extent.width, extent.height, extent.depth, format, count, flags};
  return cudaSuccess;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) cudaChannelFormatDesc cudaCreateChannelDesc(
    int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

RUNTIME_API cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* channels,
                              cudaExtent extent, unsigned int flags) {
  WITH_CONTEXT();
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  RETURN_IF_ERROR(describe(channels, extent, flags, &descriptor));
  return record(cu.array_3d_create(array, &descriptor));
}

RUNTIME_API cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* channels, size_t width,
                            size_t height, unsigned int flags) {
  // What has layers or faces has a depth too.
  if (flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) return record(cudaErrorInvalidValue);
  return cudaMalloc3DArray(array, channels, {width, height, 0}, flags);
}

RUNTIME_API cudaMallocMipmappedArray(cudaMipmappedArray_t* array,
                                     const cudaChannelFormatDesc* channels, cudaExtent extent,
                                     unsigned int levels, unsigned int flags) {
  WITH_CONTEXT();
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  RETURN_IF_ERROR(describe(channels, extent, flags, &descriptor));
  return record(cu.mipmapped_array_create(array, &descriptor, levels));
}

FORWARD(cudaGetMipmappedArrayLevel, mipmapped_array_get_level,
        (cudaArray_t * level, cudaMipmappedArray_const_t array, unsigned int index),
        (level, array, index))

// Freeing nothing is allowed, as it is for memory.
RUNTIME_API cudaFreeArray(cudaArray_t array) {
  WITH_CONTEXT();
  return array ? record(cu.array_destroy(array)) : cudaSuccess;
}

RUNTIME_API cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  WITH_CONTEXT();
  return array ? record(cu.mipmapped_array_destroy(array)) : cudaSuccess;
}

RUNTIME_API cudaArrayGetInfo(cudaChannelFormatDesc* channels, cudaExtent* extent,
                             unsigned int* flags, cudaArray_t array) {
  WITH_CONTEXT();
  CUDA_ARRAY3D_DESCRIPTOR found;
  RETURN_IF_ERROR(cu.array_3d_get_descriptor(&found, array));
  if (channels) *channels = channels_of(found.Format, found.NumChannels);
  if (extent) *extent = {found.Width, found.Height, found.Depth};
  if (flags) *flags = found.Flags;
  return cudaSuccess;
}

RUNTIME_API cudaGetChannelDesc(cudaChannelFormatDesc* channels, cudaArray_const_t array) {
  if (!channels) return record(cudaErrorInvalidValue);
  return cudaArrayGetInfo(channels, nullptr, nullptr, array);
}

FORWARD(cudaArrayGetPlane, array_get_plane,
        (cudaArray_t * plane, cudaArray_t array, unsigned int index), (plane, array, index))
FORWARD(cudaArrayGetMemoryRequirements, array_get_memory_requirements,
        (CUDA_ARRAY_MEMORY_REQUIREMENTS * requirements, cudaArray_t array, int device),
        (requirements, array, device))
FORWARD(cudaMipmappedArrayGetMemoryRequirements, mipmapped_array_get_memory_requirements,
        (CUDA_ARRAY_MEMORY_REQUIREMENTS * requirements, cudaMipmappedArray_t array, int device),
        (requirements, array, device))
