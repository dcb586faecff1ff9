// What the environment says of PTX that the program makes while it runs. Read in settings.cc, with
// the rest of the environment.
#pragma once

#include <cstdint>
#include <string>

namespace lambent::emulated_node {

struct CodeSettings {
  std::string ptx_compiler;  // EMULATED_CUDA_PTX_COMPILER: lambent-bundle; empty: beside the driver
  std::string host_compiler;  // EMULATED_CUDA_HOST_COMPILER; empty: clang++, else g++
  std::string cache;          // in CUDA_CACHE_PATH; empty: nothing is kept (CUDA_CACHE_DISABLE)
  uint64_t cache_bytes = 0;   // CUDA_CACHE_MAXSIZE
  bool is_disabled = false;   // CUDA_DISABLE_PTX_JIT
  std::string search_path;    // PATH, for the compiler
  std::string temporary;      // TMPDIR
};

CodeSettings read_code_settings();

}  // namespace lambent::emulated_node
