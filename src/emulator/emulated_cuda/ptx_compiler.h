// Host code for PTX that a program makes while it runs: lambent-bundle, a process of its own, makes
// it, once for each content (code_cache.h). Blocks while it compiles; used by ptx_image.cc, any
// thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/emulated_cuda/image.h"
#include "emulator/emulated_node/code_settings.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

struct PtxCode {
  CUresult result = CUDA_SUCCESS;
  std::string message;  // why there is none
  std::shared_ptr<const HostCode> code;
  bool was_kept = false;  // it was compiled before
  std::string note;       // why code is not kept though it should be
};

// Of modules that are linked as one. INVALID_PTX for what is no PTX, NOT_SUPPORTED for what the
// host cannot do, NO_BINARY_FOR_GPU where lambent-bundle or a compiler is missing,
// JIT_COMPILATION_DISABLED if the program's environment says so, INVALID_IMAGE if what was made is
// no module; the message names the line and the instruction. `optimisation`: 0 to 4, as
// CU_JIT_OPTIMIZATION_LEVEL.
PtxCode compile_ptx(const emulated_node::CodeSettings& settings,
                    const std::vector<std::string>& modules, unsigned optimisation);

// The text of a module, which ends with a zero or after so many bytes (0: it says nothing).
std::string ptx_text(const void* image, size_t available);
// The names of its kernels.
std::vector<std::string> ptx_kernels(std::string_view text);

}  // namespace lambent::emulated_cuda
