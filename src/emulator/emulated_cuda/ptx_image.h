// Images of PTX: the host code that stands beside the program, else what is compiled now. Used by
// the calls that load and link, any thread.
#pragma once

#include <string>
#include <vector>

#include "emulator/emulated_cuda/jit_options.h"
#include "emulator/emulated_cuda/modules.h"

namespace lambent::emulated_cuda {

// As modules.h has it, with the options of the call, whose logs are told how it went.
CUresult read_image(Process& process, const void* image, JitOptions& jit, Image* out);

// The host code of modules of PTX, linked as one and compiled now.
CUresult compile_image(const std::vector<std::string>& modules, const JitOptions& jit, Image* out,
                       std::string* reason);

// What stands beside the program for these kernels; empty if it has not all of them, or if there is
// no kernel to go by.
Image side_modules_of(Process& process, const void* image, const std::vector<std::string>& kernels);

// How compiling went, into both logs.
void tell(JitOptions& jit, CUresult result, const std::string& reason);

}  // namespace lambent::emulated_cuda
