// Compiles one .cu file for GPUs with NVRTC, loaded at run time if a CUDA toolkit is there.
// Loads a large library into the calling process and may crash it: run in a child process.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace lambent::bundle {

struct DeviceCompilation {
  std::string source;
  std::string include_folder;
  std::string architecture = "sm_90";          // of the cubin
  std::string virtual_machine = "compute_80";  // of the PTX
  std::string older_machine = "compute_75";    // of PTX for GPUs before these, where it can be
  std::vector<std::string> expressions;        // of the kernels, such as matmul_tiled<16>
};

struct DeviceCode {
  std::string cubin;
  std::string ptx;
  std::string older_ptx;             // empty: the source uses what older GPUs have not
  std::vector<std::string> lowered;  // the symbol of each expression
};

// UNAVAILABLE if there is no NVRTC, INVALID_ARGUMENT with its log if the source does not compile.
Result<DeviceCode> compile_for_device(const DeviceCompilation& compilation);

}  // namespace lambent::bundle
