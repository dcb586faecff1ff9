// tex1D to texCubemapLayeredGrad, surf1Dread to surfCubemapLayeredwrite: textures and surfaces as
// kernels read and write them. The driver finds and filters (gpu/cuda_abi/emulated_texture.h); here
// its texels become the kernel's types. Used by kernels.
#pragma once

#include <cstring>
#include <type_traits>

#include "gpu/cuda_abi/emulated_texture.h"
#include "lambent/host/failures.h"

// As the toolkit's headers, where they were read, have them.
using cudaTextureObject_t = unsigned long long;
using cudaSurfaceObject_t = unsigned long long;
#ifndef __SURFACE_TYPES_H__
enum cudaSurfaceBoundaryMode {
  cudaBoundaryModeZero = 0,
  cudaBoundaryModeClamp = 1,
  cudaBoundaryModeTrap = 2
};
#endif

namespace lambent::host {

template <typename T>
T channel_of(uint32_t word) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 4,
                "a texture is read as char to float4: this type has other channels");
  if constexpr (std::is_floating_point_v<T>) {
    T value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  } else {
    return static_cast<T>(word);
  }
}

template <typename T>
T value_of_texel(const uint32_t (&words)[4]) {
  if constexpr (requires(T value) { value.x; }) {
    T value{};
    value.x = channel_of<decltype(value.x)>(words[0]);
    if constexpr (requires { value.y; }) value.y = channel_of<decltype(value.y)>(words[1]);
    if constexpr (requires { value.z; }) value.z = channel_of<decltype(value.z)>(words[2]);
    if constexpr (requires { value.w; }) value.w = channel_of<decltype(value.w)>(words[3]);
    return value;
  } else {
    return channel_of<T>(words[0]);
  }
}

template <typename Object>
const Object& object_of(unsigned long long handle) {
  const Object* object = reinterpret_cast<const Object*>(handle);
  if (object->abi_version != EMULATED_TEXTURE_ABI_VERSION) fail(kLaunchFailed);
  return *object;
}

inline const emulated_texture& texture_of(cudaTextureObject_t handle) {
  return object_of<emulated_texture>(handle);
}

template <typename T>
T sample(cudaTextureObject_t handle, int dimensions, const emulated_position& at) {
  const emulated_texture& texture = texture_of(handle);
  uint32_t words[4];
  texture.sample(&texture, dimensions, &at, words);
  return value_of_texel<T>(words);
}

template <typename T>
T sample_cube(cudaTextureObject_t handle, const emulated_position& at) {
  const emulated_texture& texture = texture_of(handle);
  uint32_t words[4];
  texture.sample_cube(&texture, &at, words);
  return value_of_texel<T>(words);
}

inline float level_of(cudaTextureObject_t handle, int dimensions, const float (&dx)[3],
                      const float (&dy)[3]) {
  const emulated_texture& texture = texture_of(handle);
  return texture.level(&texture, dimensions, dx, dy);
}
inline float level_of(cudaTextureObject_t handle, float dx, float dy) {
  return level_of(handle, 1, {dx}, {dy});
}
inline float level_of(cudaTextureObject_t handle, float2 dx, float2 dy) {
  return level_of(handle, 2, {dx.x, dx.y}, {dy.x, dy.y});
}
inline float level_of(cudaTextureObject_t handle, float4 dx, float4 dy) {
  return level_of(handle, 3, {dx.x, dx.y, dx.z}, {dy.x, dy.y, dy.z});
}

// Null: an access outside, which reads nothing and writes nowhere.
inline void* surface_element(cudaSurfaceObject_t handle, int64_t x_bytes, int64_t y, int64_t z,
                             uint32_t bytes, cudaSurfaceBoundaryMode mode) {
  const emulated_surface& surface = object_of<emulated_surface>(handle);
  void* element =
      surface.element(&surface, x_bytes, y, z, bytes, static_cast<emulated_boundary>(mode));
  if (element == nullptr && mode == cudaBoundaryModeTrap) fail(kLaunchFailed);
  return element;
}

template <typename T>
T read_surface(cudaSurfaceObject_t handle, int x_bytes, int y, int z,
               cudaSurfaceBoundaryMode mode) {
  T value{};
  const void* element = surface_element(handle, x_bytes, y, z, sizeof(T), mode);
  if (element != nullptr) std::memcpy(&value, element, sizeof(T));
  return value;
}

template <typename T>
void write_surface(const T& value, cudaSurfaceObject_t handle, int x_bytes, int y, int z,
                   cudaSurfaceBoundaryMode mode) {
  void* element = surface_element(handle, x_bytes, y, z, sizeof(T), mode);
  if (element != nullptr) std::memcpy(element, &value, sizeof(T));
}

}  // namespace lambent::host

// Each returns its texel, or gives it to a pointer.
#define LAMBENT_TEXTURE(name, parameters, arguments, ...)   \
  template <typename T>                                     \
  inline T name parameters {                                \
    return __VA_ARGS__;                                     \
  }                                                         \
  template <typename T>                                     \
  inline void name(T* texel, LAMBENT_UNPACKED parameters) { \
    *texel = name<T> arguments;                             \
  }
#define LAMBENT_UNPACKED(...) __VA_ARGS__
// The same, and what says whether sparse memory is there: all is.
#define LAMBENT_TEXTURE_RESIDENT(name, parameters, arguments, ...)          \
  LAMBENT_TEXTURE(name, parameters, arguments, __VA_ARGS__)                 \
  template <typename T>                                                     \
  inline T name(LAMBENT_UNPACKED parameters, bool* resident) {              \
    *resident = true;                                                       \
    return name<T> arguments;                                               \
  }                                                                         \
  template <typename T>                                                     \
  inline void name(T* texel, LAMBENT_UNPACKED parameters, bool* resident) { \
    *texel = name<T>(LAMBENT_UNPACKED arguments, resident);                 \
  }

LAMBENT_TEXTURE(tex1D, (cudaTextureObject_t texture, float x), (texture, x),
                lambent::host::sample<T>(texture, 1, {x, 0, 0, 0, 0}))
LAMBENT_TEXTURE(tex1DLod, (cudaTextureObject_t texture, float x, float level), (texture, x, level),
                lambent::host::sample<T>(texture, 1, {x, 0, 0, 0, level}))
LAMBENT_TEXTURE(tex1DGrad, (cudaTextureObject_t texture, float x, float dx, float dy),
                (texture, x, dx, dy),
                lambent::host::sample<T>(texture, 1,
                                         {x, 0, 0, 0, lambent::host::level_of(texture, dx, dy)}))
LAMBENT_TEXTURE(tex1DLayered, (cudaTextureObject_t texture, float x, int layer),
                (texture, x, layer), lambent::host::sample<T>(texture, 1, {x, 0, 0, layer, 0}))
LAMBENT_TEXTURE(tex1DLayeredLod, (cudaTextureObject_t texture, float x, int layer, float level),
                (texture, x, layer, level),
                lambent::host::sample<T>(texture, 1, {x, 0, 0, layer, level}))
LAMBENT_TEXTURE(tex1DLayeredGrad,
                (cudaTextureObject_t texture, float x, int layer, float dx, float dy),
                (texture, x, layer, dx, dy),
                lambent::host::sample<T>(texture, 1,
                                         {x, 0, 0, layer,
                                          lambent::host::level_of(texture, dx, dy)}))
LAMBENT_TEXTURE_RESIDENT(tex2D, (cudaTextureObject_t texture, float x, float y), (texture, x, y),
                         lambent::host::sample<T>(texture, 2, {x, y, 0, 0, 0}))
LAMBENT_TEXTURE_RESIDENT(tex2DLod, (cudaTextureObject_t texture, float x, float y, float level),
                         (texture, x, y, level),
                         lambent::host::sample<T>(texture, 2, {x, y, 0, 0, level}))
LAMBENT_TEXTURE_RESIDENT(
    tex2DGrad, (cudaTextureObject_t texture, float x, float y, float2 dx, float2 dy),
    (texture, x, y, dx, dy),
    lambent::host::sample<T>(texture, 2, {x, y, 0, 0, lambent::host::level_of(texture, dx, dy)}))
LAMBENT_TEXTURE_RESIDENT(tex2DLayered, (cudaTextureObject_t texture, float x, float y, int layer),
                         (texture, x, y, layer),
                         lambent::host::sample<T>(texture, 2, {x, y, 0, layer, 0}))
LAMBENT_TEXTURE_RESIDENT(tex2DLayeredLod,
                         (cudaTextureObject_t texture, float x, float y, int layer, float level),
                         (texture, x, y, layer, level),
                         lambent::host::sample<T>(texture, 2, {x, y, 0, layer, level}))
LAMBENT_TEXTURE_RESIDENT(
    tex2DLayeredGrad,
    (cudaTextureObject_t texture, float x, float y, int layer, float2 dx, float2 dy),
    (texture, x, y, layer, dx, dy),
    lambent::host::sample<T>(texture, 2,
                             {x, y, 0, layer, lambent::host::level_of(texture, dx, dy)}))
LAMBENT_TEXTURE_RESIDENT(tex3D, (cudaTextureObject_t texture, float x, float y, float z),
                         (texture, x, y, z), lambent::host::sample<T>(texture, 3, {x, y, z, 0, 0}))
LAMBENT_TEXTURE_RESIDENT(tex3DLod,
                         (cudaTextureObject_t texture, float x, float y, float z, float level),
                         (texture, x, y, z, level),
                         lambent::host::sample<T>(texture, 3, {x, y, z, 0, level}))
LAMBENT_TEXTURE_RESIDENT(
    tex3DGrad, (cudaTextureObject_t texture, float x, float y, float z, float4 dx, float4 dy),
    (texture, x, y, z, dx, dy),
    lambent::host::sample<T>(texture, 3, {x, y, z, 0, lambent::host::level_of(texture, dx, dy)}))
LAMBENT_TEXTURE(texCubemap, (cudaTextureObject_t texture, float x, float y, float z),
                (texture, x, y, z), lambent::host::sample_cube<T>(texture, {x, y, z, 0, 0}))
LAMBENT_TEXTURE(texCubemapLod,
                (cudaTextureObject_t texture, float x, float y, float z, float level),
                (texture, x, y, z, level),
                lambent::host::sample_cube<T>(texture, {x, y, z, 0, level}))
LAMBENT_TEXTURE(texCubemapLayered,
                (cudaTextureObject_t texture, float x, float y, float z, int layer),
                (texture, x, y, z, layer),
                lambent::host::sample_cube<T>(texture, {x, y, z, layer, 0}))
LAMBENT_TEXTURE(texCubemapLayeredLod,
                (cudaTextureObject_t texture, float x, float y, float z, int layer, float level),
                (texture, x, y, z, layer, level),
                lambent::host::sample_cube<T>(texture, {x, y, z, layer, level}))
#undef LAMBENT_TEXTURE
#undef LAMBENT_TEXTURE_RESIDENT
#undef LAMBENT_UNPACKED

template <typename T>
inline T tex1Dfetch(cudaTextureObject_t handle, int index) {
  const emulated_texture& texture = lambent::host::texture_of(handle);
  uint32_t words[4];
  texture.fetch(&texture, index, words);
  return lambent::host::value_of_texel<T>(words);
}
template <typename T>
inline void tex1Dfetch(T* texel, cudaTextureObject_t texture, int index) {
  *texel = tex1Dfetch<T>(texture, index);
}

template <typename T>
inline T tex2Dgather(cudaTextureObject_t handle, float x, float y, int channel = 0) {
  const emulated_texture& texture = lambent::host::texture_of(handle);
  uint32_t words[4];
  texture.gather(&texture, x, y, channel, words);
  return lambent::host::value_of_texel<T>(words);
}
template <typename T>
inline void tex2Dgather(T* texel, cudaTextureObject_t texture, float x, float y, int channel = 0) {
  *texel = tex2Dgather<T>(texture, x, y, channel);
}

// x counts bytes; faces and layers are slices.
#define LAMBENT_SURFACE(name, coordinates, y, z)                                              \
  template <typename T>                                                                       \
  inline T name##read(cudaSurfaceObject_t surface, LAMBENT_UNPACKED coordinates,              \
                      cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {                  \
    return lambent::host::read_surface<T>(surface, x_bytes, y, z, mode);                      \
  }                                                                                           \
  template <typename T>                                                                       \
  inline void name##read(T* value, cudaSurfaceObject_t surface, LAMBENT_UNPACKED coordinates, \
                         cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {               \
    *value = lambent::host::read_surface<T>(surface, x_bytes, y, z, mode);                    \
  }                                                                                           \
  template <typename T>                                                                       \
  inline void name##write(T value, cudaSurfaceObject_t surface, LAMBENT_UNPACKED coordinates, \
                          cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {              \
    lambent::host::write_surface<T>(value, surface, x_bytes, y, z, mode);                     \
  }
#define LAMBENT_UNPACKED(...) __VA_ARGS__
LAMBENT_SURFACE(surf1D, (int x_bytes), 0, 0)
LAMBENT_SURFACE(surf2D, (int x_bytes, int y), y, 0)
LAMBENT_SURFACE(surf3D, (int x_bytes, int y, int z), y, z)
LAMBENT_SURFACE(surf1DLayered, (int x_bytes, int layer), 0, layer)
LAMBENT_SURFACE(surf2DLayered, (int x_bytes, int y, int layer), y, layer)
LAMBENT_SURFACE(surfCubemap, (int x_bytes, int y, int face), y, face)
LAMBENT_SURFACE(surfCubemapLayered, (int x_bytes, int y, int layer_face), y, layer_face)
#undef LAMBENT_SURFACE
#undef LAMBENT_UNPACKED
