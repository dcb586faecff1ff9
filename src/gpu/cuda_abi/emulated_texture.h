/* The contract between a kernel compiled for the host and the emulated driver about textures and
 * surfaces. Plain C.
 *
 * A texture object (CUtexObject, a cudaTextureObject_t in a kernel) is the address of a struct
 * emulated_texture, a surface object that of a struct emulated_surface. Their functions are the
 * driver's: a kernel calls them with the object itself, from any thread, while the object exists.
 *
 * A texel is four words. Channels that the texture does not have are 0. A word holds the bits of a
 * float where the texture is read as numbers with a fraction, otherwise an integer, its sign
 * extended.
 */
#ifndef LAMBENT_CUDA_ABI_EMULATED_TEXTURE_H
#define LAMBENT_CUDA_ABI_EMULATED_TEXTURE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMULATED_TEXTURE_ABI_VERSION 1u

/* Where a texture is read. Coordinates that a texture does not have are not looked at. */
struct emulated_position {
  float x, y, z;
  int32_t layer;
  float level; /* of a mipmapped array */
};

struct emulated_texture {
  uint32_t abi_version; /* EMULATED_TEXTURE_ABI_VERSION */

  /* An element by its number, without coordinates and filters; zero outside. */
  void (*fetch)(const struct emulated_texture* texture, int64_t index, uint32_t texel[4]);
  /* Of an array that is no cubemap. `dimensions` says which coordinates the kernel gave, 1 to 3. */
  void (*sample)(const struct emulated_texture* texture, int dimensions,
                 const struct emulated_position* at, uint32_t texel[4]);
  /* Of a cubemap: x, y, z are a direction. */
  void (*sample_cube)(const struct emulated_texture* texture, const struct emulated_position* at,
                      uint32_t texel[4]);
  /* One channel of the four elements that a linear filter would mix, in the order of tex2Dgather.
   */
  void (*gather)(const struct emulated_texture* texture, float x, float y, int channel,
                 uint32_t texel[4]);
  /* The level that fits what the coordinates change by from one pixel to the next. */
  float (*level)(const struct emulated_texture* texture, int dimensions, const float dx[3],
                 const float dy[3]);
};

/* What an access outside of a surface does; the values of cudaSurfaceBoundaryMode. */
enum emulated_boundary {
  EMULATED_BOUNDARY_ZERO = 0,
  EMULATED_BOUNDARY_CLAMP = 1,
  EMULATED_BOUNDARY_TRAP = 2
};

struct emulated_surface {
  uint32_t abi_version; /* EMULATED_TEXTURE_ABI_VERSION */

  /* The address of `bytes` at byte x of row y, in slice, layer or face z; NULL outside, unless the
   * boundary clamps. */
  void* (*element)(const struct emulated_surface* surface, int64_t x_bytes, int64_t y, int64_t z,
                   uint32_t bytes, enum emulated_boundary boundary);
};

#ifdef __cplusplus
}
#endif
#endif
