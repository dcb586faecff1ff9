// Texture and surface objects, in the runtime's words over the driver's.
#include "emulator/emulated_runtime/api.h"
#include "emulator/emulated_runtime/channels.h"

using namespace lambent::emulated_runtime;

namespace {

cudaError_t to_driver(const cudaResourceDesc& from, CUDA_RESOURCE_DESC* to) {
  *to = {};
  to->resType = from.resType;
  to->flags = from.flags;
  switch (from.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      to->res.array.hArray = from.res.array.array;
      return cudaSuccess;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      to->res.mipmap.hMipmappedArray = from.res.mipmap.mipmap;
      return cudaSuccess;
    case CU_RESOURCE_TYPE_LINEAR: {
      auto& linear = to->res.linear;
      linear.devPtr = reinterpret_cast<CUdeviceptr>(from.res.linear.devPtr);
      linear.sizeInBytes = from.res.linear.sizeInBytes;
      return format_of(from.res.linear.desc, &linear.format, &linear.numChannels);
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      auto& rows = to->res.pitch2D;
      rows.devPtr = reinterpret_cast<CUdeviceptr>(from.res.pitch2D.devPtr);
      rows.width = from.res.pitch2D.width;
      rows.height = from.res.pitch2D.height;
      rows.pitchInBytes = from.res.pitch2D.pitchInBytes;
      return format_of(from.res.pitch2D.desc, &rows.format, &rows.numChannels);
    }
  }
  return cudaErrorInvalidValue;
}

void from_driver(const CUDA_RESOURCE_DESC& from, cudaResourceDesc* to) {
  *to = {};
  to->resType = from.resType;
  to->flags = from.flags;
  switch (from.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      to->res.array.array = from.res.array.hArray;
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      to->res.mipmap.mipmap = from.res.mipmap.hMipmappedArray;
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      to->res.linear.devPtr = reinterpret_cast<void*>(from.res.linear.devPtr);
      to->res.linear.desc = channels_of(from.res.linear.format, from.res.linear.numChannels);
      to->res.linear.sizeInBytes = from.res.linear.sizeInBytes;
      break;
    case CU_RESOURCE_TYPE_PITCH2D:
      to->res.pitch2D.devPtr = reinterpret_cast<void*>(from.res.pitch2D.devPtr);
      to->res.pitch2D.desc = channels_of(from.res.pitch2D.format, from.res.pitch2D.numChannels);
      to->res.pitch2D.width = from.res.pitch2D.width;
      to->res.pitch2D.height = from.res.pitch2D.height;
      to->res.pitch2D.pitchInBytes = from.res.pitch2D.pitchInBytes;
      break;
  }
}

CUDA_TEXTURE_DESC to_driver(const cudaTextureDesc& from) {
  CUDA_TEXTURE_DESC to{};
  for (int i = 0; i < 3; i++) to.addressMode[i] = from.addressMode[i];
  for (int i = 0; i < 4; i++) to.borderColor[i] = from.borderColor[i];
  to.filterMode = from.filterMode;
  to.maxAnisotropy = from.maxAnisotropy;
  to.mipmapFilterMode = from.mipmapFilterMode;
  to.mipmapLevelBias = from.mipmapLevelBias;
  to.minMipmapLevelClamp = from.minMipmapLevelClamp;
  to.maxMipmapLevelClamp = from.maxMipmapLevelClamp;
  if (from.readMode == cudaReadModeElementType) to.flags |= CU_TRSF_READ_AS_INTEGER;
  if (from.normalizedCoords) to.flags |= CU_TRSF_NORMALIZED_COORDINATES;
  if (from.sRGB) to.flags |= CU_TRSF_SRGB;
  if (from.disableTrilinearOptimization) to.flags |= CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
  if (from.seamlessCubemap) to.flags |= CU_TRSF_SEAMLESS_CUBEMAP;
  return to;
}

void from_driver(const CUDA_TEXTURE_DESC& from, cudaTextureDesc* to) {
  *to = {};
  for (int i = 0; i < 3; i++) to->addressMode[i] = from.addressMode[i];
  for (int i = 0; i < 4; i++) to->borderColor[i] = from.borderColor[i];
  to->filterMode = from.filterMode;
  to->maxAnisotropy = from.maxAnisotropy;
  to->mipmapFilterMode = from.mipmapFilterMode;
  to->mipmapLevelBias = from.mipmapLevelBias;
  to->minMipmapLevelClamp = from.minMipmapLevelClamp;
  to->maxMipmapLevelClamp = from.maxMipmapLevelClamp;
  const auto has = [&](unsigned flag) { return (from.flags & flag) != 0; };
  to->readMode =
      has(CU_TRSF_READ_AS_INTEGER) ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
  to->normalizedCoords = has(CU_TRSF_NORMALIZED_COORDINATES);
  to->sRGB = has(CU_TRSF_SRGB);
  to->disableTrilinearOptimization = has(CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION);
  to->seamlessCubemap = has(CU_TRSF_SEAMLESS_CUBEMAP);
}

// What an object was made of, by the driver's function for objects of its kind.
template <typename Get, typename Object>
cudaError_t tell_resource(Get get, Object object, cudaResourceDesc* resource) {
  if (!resource) return record(cudaErrorInvalidValue);
  CUDA_RESOURCE_DESC found;
  RETURN_IF_ERROR(get(&found, object));
  from_driver(found, resource);
  return cudaSuccess;
}

}  // namespace

RUNTIME_API cudaCreateTextureObject(cudaTextureObject_t* texture, const cudaResourceDesc* resource,
                                    const cudaTextureDesc* description,
                                    const CUDA_RESOURCE_VIEW_DESC* view) {
  WITH_CONTEXT();
  if (!texture || !resource || !description) return record(cudaErrorInvalidValue);
  CUDA_RESOURCE_DESC what;
  RETURN_IF_ERROR(to_driver(*resource, &what));
  const bool numbers = description->readMode == cudaReadModeElementType ||
                       description->readMode == cudaReadModeNormalizedFloat;
  if (!numbers) return record(cudaErrorInvalidValue);
  const CUDA_TEXTURE_DESC how = to_driver(*description);
  return record(cu.tex_object_create(texture, &what, &how, view));
}

FORWARD(cudaDestroyTextureObject, tex_object_destroy, (cudaTextureObject_t texture), (texture))

RUNTIME_API cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource,
                                             cudaTextureObject_t texture) {
  WITH_CONTEXT();
  return tell_resource(cu.tex_object_get_resource_desc, texture, resource);
}

RUNTIME_API cudaGetTextureObjectTextureDesc(cudaTextureDesc* description,
                                            cudaTextureObject_t texture) {
  WITH_CONTEXT();
  if (!description) return record(cudaErrorInvalidValue);
  CUDA_TEXTURE_DESC found;
  RETURN_IF_ERROR(cu.tex_object_get_texture_desc(&found, texture));
  from_driver(found, description);
  return cudaSuccess;
}

FORWARD(cudaGetTextureObjectResourceViewDesc, tex_object_get_resource_view_desc,
        (CUDA_RESOURCE_VIEW_DESC * view, cudaTextureObject_t texture), (view, texture))

RUNTIME_API cudaCreateSurfaceObject(cudaSurfaceObject_t* surface,
                                    const cudaResourceDesc* resource) {
  WITH_CONTEXT();
  if (!surface || !resource) return record(cudaErrorInvalidValue);
  CUDA_RESOURCE_DESC what;
  RETURN_IF_ERROR(to_driver(*resource, &what));
  return record(cu.surf_object_create(surface, &what));
}

FORWARD(cudaDestroySurfaceObject, surf_object_destroy, (cudaSurfaceObject_t surface), (surface))

RUNTIME_API cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* resource,
                                             cudaSurfaceObject_t surface) {
  WITH_CONTEXT();
  return tell_resource(cu.surf_object_get_resource_desc, surface, resource);
}

RUNTIME_API cudaDeviceGetTexture1DLinearMaxWidth(size_t* elements,
                                                 const cudaChannelFormatDesc* channels,
                                                 int device) {
  WITH_CONTEXT();
  if (!elements || !channels) return record(cudaErrorInvalidValue);
  CUarray_format format;
  unsigned count = 0;
  RETURN_IF_ERROR(format_of(*channels, &format, &count));
  return record(cu.device_get_texture_1d_linear_max_width(elements, format, count, device));
}
