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
LAMBENT_UNSUPPORTED(texCubemapGrad, "give the level: texCubemapLod")
LAMBENT_UNSUPPORTED(texCubemapLayeredGrad, "give the level: texCubemapLayeredLod")
LAMBENT_UNSUPPORTED(cudaGridDependencySynchronize, "kernels cannot wait for other kernels")
#undef LAMBENT_UNSUPPORTED

#define __cluster_dims__(...) clusters_are_not_supported_in_host_kernels

#define asm inline_PTX_is_not_supported_in_host_kernels
