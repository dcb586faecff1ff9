// What the host build does not have: each name is there only to say so when a kernel uses it.
// Included after every standard header; used by kernels by mistake.
#pragma once

namespace lambent::host {
template <typename...>
inline constexpr bool never = false;
}

#define LAMBENT_UNSUPPORTED(function, reason)                              \
  template <typename... Arguments>                                         \
  int function(Arguments...) {                                             \
    static_assert(lambent::host::never<Arguments...>,                      \
                  #function " is not supported in host kernels: " reason); \
    return 0;                                                              \
  }
LAMBENT_UNSUPPORTED(tex1Dfetch, "there are no textures; read the memory")
LAMBENT_UNSUPPORTED(tex1D, "there are no textures; read the memory")
LAMBENT_UNSUPPORTED(tex2D, "there are no textures; read the memory")
LAMBENT_UNSUPPORTED(tex3D, "there are no textures; read the memory")
LAMBENT_UNSUPPORTED(tex1DLayered, "there are no textures; read the memory")
LAMBENT_UNSUPPORTED(tex2DLayered, "there are no textures; read the memory")
LAMBENT_UNSUPPORTED(texCubemap, "there are no textures; read the memory")
LAMBENT_UNSUPPORTED(texCubemapLayered, "there are no textures; read the memory")
LAMBENT_UNSUPPORTED(surf1Dread, "there are no surfaces; read the memory")
LAMBENT_UNSUPPORTED(surf1Dwrite, "there are no surfaces; write the memory")
LAMBENT_UNSUPPORTED(surf2Dread, "there are no surfaces; read the memory")
LAMBENT_UNSUPPORTED(surf2Dwrite, "there are no surfaces; write the memory")
LAMBENT_UNSUPPORTED(surf3Dread, "there are no surfaces; read the memory")
LAMBENT_UNSUPPORTED(surf3Dwrite, "there are no surfaces; write the memory")
LAMBENT_UNSUPPORTED(cudaGridDependencySynchronize, "kernels cannot wait for other kernels")
#undef LAMBENT_UNSUPPORTED

#define __cluster_dims__(...) clusters_are_not_supported_in_host_kernels

using cudaTextureObject_t = unsigned long long;

#define asm inline_PTX_is_not_supported_in_host_kernels
