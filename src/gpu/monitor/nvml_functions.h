// NvmlFunctions: the functions of libnvidia-ml.so.1 that Lambent knows, as pointers; null where the
// library lacks one. Used by Nvml and MigLayout, each on the thread that holds its library.
#pragma once

#include <dlfcn.h>

#include "gpu/cuda_abi/nvml.h"

namespace lambent::monitor {

struct NvmlFunctions {
#define NVML_FUNCTION(name, symbol, parameters) nvmlReturn_t(*name) parameters = nullptr;
#include "gpu/cuda_abi/nvml_table.inc"
#undef NVML_FUNCTION

  // From a library that dlopen gave.
  void load(void* library) {
#define NVML_FUNCTION(name, symbol, parameters) \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #symbol));
#include "gpu/cuda_abi/nvml_table.inc"
#undef NVML_FUNCTION
  }
};

}  // namespace lambent::monitor
