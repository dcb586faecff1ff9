// Texture and surface objects: made of arrays and of plain memory, described, destroyed.
#include <algorithm>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/arrays.h"
#include "emulator/emulated_cuda/partitioning.h"
#include "emulator/emulated_cuda/textures.h"

using namespace lambent::emulated_cuda;

namespace {

constexpr size_t kTextureAlignment = 512;      // CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT
constexpr size_t kTexturePitchAlignment = 32;  // CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT
constexpr size_t kMostLinearElements = size_t{1} << 28;
constexpr unsigned kTextureFlags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                                   CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
                                   CU_TRSF_SEAMLESS_CUBEMAP;

TexturePlane plane_of(const Array& array) {
  return {array.base,     array.descriptor.Width, array.rows(),
          array.layers(), array.row_bytes(),      array.row_bytes() * array.rows()};
}

bool valid(const ElementFormat& format) {
  const bool counted = format.channels == 1 || format.channels == 2 || format.channels == 4;
  return counted && format.channel_bytes() != 0;
}

// Memory of a device, of this many bytes, where a texture may begin.
bool valid_memory(Process& process, CUdeviceptr address, size_t bytes) {
  Side side;
  return address % kTextureAlignment == 0 && resolve_device(process, address, bytes, &side);
}

CUresult use_linear(Process& process, const CUDA_RESOURCE_DESC& resource, Texture& texture) {
  const auto& linear = resource.res.linear;
  texture.format = {linear.format, linear.numChannels};
  if (!valid(texture.format)) return CUDA_ERROR_INVALID_VALUE;
  const size_t elements = linear.sizeInBytes / texture.format.bytes();
  if (elements == 0 || elements > kMostLinearElements) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_memory(process, linear.devPtr, linear.sizeInBytes)) return CUDA_ERROR_INVALID_VALUE;
  texture.linear_memory = true;
  texture.levels = {{linear.devPtr, elements, 1, 1, linear.sizeInBytes, linear.sizeInBytes}};
  return CUDA_SUCCESS;
}

CUresult use_rows(Process& process, const CUDA_RESOURCE_DESC& resource, Texture& texture) {
  const auto& rows = resource.res.pitch2D;
  texture.format = {rows.format, rows.numChannels};
  if (!valid(texture.format)) return CUDA_ERROR_INVALID_VALUE;
  constexpr size_t kMost = size_t{1} << 17;
  const bool sized = rows.width > 0 && rows.width <= kMost && rows.height > 0 &&
                     rows.height <= kMost && rows.pitchInBytes <= size_t{1} << 31;
  if (!sized || rows.pitchInBytes % kTexturePitchAlignment) return CUDA_ERROR_INVALID_VALUE;
  const size_t row_bytes = rows.width * texture.format.bytes();
  if (row_bytes > rows.pitchInBytes) return CUDA_ERROR_INVALID_VALUE;
  const size_t bytes = rows.pitchInBytes * (rows.height - 1) + row_bytes;
  if (!valid_memory(process, rows.devPtr, bytes)) return CUDA_ERROR_INVALID_VALUE;
  texture.levels = {{rows.devPtr, rows.width, rows.height, 1, rows.pitchInBytes,
                     rows.pitchInBytes * rows.height}};
  return CUDA_SUCCESS;
}

CUresult use_arrays(Process& process, const CUDA_RESOURCE_DESC& resource, Texture& texture) {
  std::shared_ptr<Array> first;
  if (resource.resType == CU_RESOURCE_TYPE_ARRAY) {
    first = process.arrays.find(resource.res.array.hArray);
    if (!first) return CUDA_ERROR_INVALID_HANDLE;
    texture.levels = {plane_of(*first)};
  } else {
    auto mipmapped = process.mipmapped_arrays.find(resource.res.mipmap.hMipmappedArray);
    if (!mipmapped) return CUDA_ERROR_INVALID_HANDLE;
    first = mipmapped->levels.front();
    for (const auto& level : mipmapped->levels) texture.levels.push_back(plane_of(*level));
  }
  texture.format = {first->descriptor.Format, first->descriptor.NumChannels};
  texture.array_flags = first->descriptor.Flags;
  return CUDA_SUCCESS;
}

// Another look at an array: some of its levels and layers, its elements as other plain numbers.
CUresult use_view(const CUDA_RESOURCE_VIEW_DESC& view, Texture& texture) {
  const CUresourcetype type = texture.resource.resType;
  if (type != CU_RESOURCE_TYPE_ARRAY && type != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (view.format != CU_RES_VIEW_FORMAT_NONE) {
    ElementFormat format;
    if (!format_of_view(view.format, &format)) {
      log_refusal("cuTexObjectCreate", "views of compressed blocks are not emulated");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (format.bytes() != texture.format.bytes()) return CUDA_ERROR_INVALID_VALUE;
    texture.format = format;
  }
  const TexturePlane& whole = texture.levels.front();
  const bool is_layered = texture.array_flags & CUDA_ARRAY3D_LAYERED;
  const bool same = view.width == whole.width && std::max<size_t>(view.height, 1) == whole.height &&
                    std::max<size_t>(view.depth, 1) == whole.slices;
  if (!same) return CUDA_ERROR_INVALID_VALUE;
  // A layer of a cubemap is six slices. What has no layers names the first, and means all it has.
  const size_t slices_each = texture.array_flags & CUDA_ARRAY3D_CUBEMAP ? 6 : 1;
  const size_t layers = is_layered ? whole.slices / slices_each : 1;
  if (view.firstMipmapLevel > view.lastMipmapLevel ||
      view.lastMipmapLevel >= texture.levels.size() || view.firstLayer > view.lastLayer ||
      view.lastLayer >= layers) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  texture.levels.erase(texture.levels.begin() + view.lastMipmapLevel + 1, texture.levels.end());
  texture.levels.erase(texture.levels.begin(), texture.levels.begin() + view.firstMipmapLevel);
  if (is_layered) {
    for (TexturePlane& plane : texture.levels) {
      plane.base += view.firstLayer * slices_each * plane.slice_bytes;
      plane.slices = (view.lastLayer - view.firstLayer + 1) * slices_each;
    }
  }
  texture.view = view;
  texture.has_view = true;
  return CUDA_SUCCESS;
}

CUresult check_descriptor(const CUDA_TEXTURE_DESC& d, const Texture& texture) {
  for (const CUaddress_mode mode : d.addressMode) {
    if (mode < CU_TR_ADDRESS_MODE_WRAP || mode > CU_TR_ADDRESS_MODE_BORDER) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (const CUfilter_mode mode : {d.filterMode, d.mipmapFilterMode}) {
    if (mode != CU_TR_FILTER_MODE_POINT && mode != CU_TR_FILTER_MODE_LINEAR) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (d.flags & ~kTextureFlags) return CUDA_ERROR_INVALID_VALUE;
  // Integers are not mixed.
  const bool mixes = d.filterMode == CU_TR_FILTER_MODE_LINEAR && !texture.linear_memory;
  return mixes && !texture.gives_floats ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

template <typename Object>
unsigned long long handle_of(const Object* object) {
  return reinterpret_cast<unsigned long long>(object);
}

// Kernels that read it may still be under way, in whichever context they are launched: they are
// waited for, as by a free of memory.
template <typename Object>
CUresult destroy(Process& process, Handles<Object>& objects, unsigned long long handle) {
  auto object = objects.find(reinterpret_cast<void*>(handle));
  if (!object) return CUDA_ERROR_INVALID_VALUE;
  if (auto owner = process.contexts.find(object->context)) synchronize_with_green(process, *owner);
  const bool removed = objects.remove(reinterpret_cast<void*>(handle)) != nullptr;
  return removed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                           const CUDA_TEXTURE_DESC* descriptor,
                           const CUDA_RESOURCE_VIEW_DESC* view) {
  WITH_CONTEXT();
  if (!out || !resource || !descriptor || resource->flags) return CUDA_ERROR_INVALID_VALUE;
  auto texture = std::make_shared<Texture>();
  texture->resource = *resource;
  texture->descriptor = *descriptor;
  texture->context = root_of(*context);
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  switch (resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      result = use_arrays(*process, *resource, *texture);
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      result = use_linear(*process, *resource, *texture);
      break;
    case CU_RESOURCE_TYPE_PITCH2D:
      result = use_rows(*process, *resource, *texture);
      break;
  }
  if (result == CUDA_SUCCESS && view) result = use_view(*view, *texture);
  if (result != CUDA_SUCCESS) return result;
  finish_texture(*texture);
  if ((result = check_descriptor(*descriptor, *texture))) return result;
  *out = handle_of(process->textures.insert(std::move(texture)));
  return CUDA_SUCCESS;
}

CUresult cuTexObjectDestroy(CUtexObject handle) {
  WITH_CONTEXT();
  return destroy(*process, process->textures, handle);
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUtexObject handle) {
  WITH_CONTEXT();
  auto texture = process->textures.find(reinterpret_cast<void*>(handle));
  if (!texture || !resource) return CUDA_ERROR_INVALID_VALUE;
  *resource = texture->resource;
  return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* descriptor, CUtexObject handle) {
  WITH_CONTEXT();
  auto texture = process->textures.find(reinterpret_cast<void*>(handle));
  if (!texture || !descriptor) return CUDA_ERROR_INVALID_VALUE;
  *descriptor = texture->descriptor;
  return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* view, CUtexObject handle) {
  WITH_CONTEXT();
  auto texture = process->textures.find(reinterpret_cast<void*>(handle));
  if (!texture || !view || !texture->has_view) return CUDA_ERROR_INVALID_VALUE;
  *view = texture->view;
  return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  WITH_CONTEXT();
  if (!out || !resource || resource->flags || resource->resType != CU_RESOURCE_TYPE_ARRAY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto array = process->arrays.find(resource->res.array.hArray);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  const unsigned flags = (array->owner ? *array->owner : *array).descriptor.Flags;
  if (!(flags & CUDA_ARRAY3D_SURFACE_LDST)) return CUDA_ERROR_INVALID_VALUE;
  auto surface = std::make_shared<Surface>();
  surface->resource = *resource;
  surface->plane = plane_of(*array);
  surface->context = root_of(*context);
  finish_surface(*surface);
  *out = handle_of(process->surfaces.insert(std::move(surface)));
  return CUDA_SUCCESS;
}

CUresult cuSurfObjectDestroy(CUsurfObject handle) {
  WITH_CONTEXT();
  return destroy(*process, process->surfaces, handle);
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUsurfObject handle) {
  WITH_CONTEXT();
  auto surface = process->surfaces.find(reinterpret_cast<void*>(handle));
  if (!surface || !resource) return CUDA_ERROR_INVALID_VALUE;
  *resource = surface->resource;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* elements, CUarray_format format,
                                            unsigned int channels, CUdevice device) {
  WITH_PROCESS();
  int index;
  if (CUresult result = process->device_of(device, &index)) return result;
  const ElementFormat element{format, channels};
  if (!elements || !valid(element)) return CUDA_ERROR_INVALID_VALUE;
  *elements = kMostLinearElements;
  return CUDA_SUCCESS;
}
