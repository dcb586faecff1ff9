// Textures and surfaces: how an element is found by coordinates, filtered and converted, as a GPU's
// texture unit does it. Made by api_texture.cc; kernels call the functions of the object through
// gpu/cuda_abi/emulated_texture.h, from any thread.
#pragma once

#include <vector>

#include "emulator/emulated_cuda/arrays.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/cuda_abi/emulated_texture.h"

namespace lambent::emulated_cuda {

// Memory as a texture or surface sees it: one level of an array, or plain rows. An extent that
// there is none of is 1; slices are a depth, layers, faces, or layers of six faces.
struct TexturePlane {
  uintptr_t base = 0;
  size_t width = 1, height = 1, slices = 1;
  size_t row_bytes = 0, slice_bytes = 0;
};

struct ElementFormat {
  int format = CU_AD_FORMAT_FLOAT;
  unsigned channels = 1;

  size_t channel_bytes() const { return emulated_cuda::channel_bytes(format); }
  size_t bytes() const { return channel_bytes() * channels; }
};

// The format that a view names; false for those that are not plain numbers.
bool format_of_view(CUresourceViewFormat view, ElementFormat* format);

// A texture object. Its handle is its own address, which is that of `functions`.
struct Texture {
  emulated_texture functions;  // first
  ElementFormat format;
  std::vector<TexturePlane> levels;  // never empty
  CUDA_TEXTURE_DESC descriptor{};
  CUDA_RESOURCE_DESC resource{};
  CUDA_RESOURCE_VIEW_DESC view{};
  bool has_view = false;
  unsigned array_flags = 0;  // CUDA_ARRAY3D_LAYERED and its kin
  bool linear_memory = false;
  const void* context = nullptr;  // the primary one of a green one's

  // By finish_texture, so that no sample computes them.
  bool gives_floats = false;  // otherwise integers
  bool normalised = false;
  CUaddress_mode modes[3] = {};  // those that are followed
  size_t channel_bytes = 0, element_bytes = 0;
};

// Fills in `functions` and what else follows from the format and the descriptor.
void finish_texture(Texture& texture);

// A surface object; the same of it.
struct Surface {
  emulated_surface functions;  // first
  TexturePlane plane;
  CUDA_RESOURCE_DESC resource{};
  const void* context = nullptr;
};

void finish_surface(Surface& surface);

}  // namespace lambent::emulated_cuda
