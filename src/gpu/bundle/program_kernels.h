// Compiles the kernels of an ordinary CUDA program for the host: every kernel that is defined in
// its files, and every instance of a template that they launch, under the name that nvcc gives it.
// Blocks; runs the compiler as a child process. Used by lambent-bundle.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "gpu/bundle/host_compiler.h"

namespace lambent::bundle {

struct Program {
  std::vector<std::string> files;    // compiled as one, in this order
  std::vector<std::string> folders;  // -I
  std::vector<std::string> macros;   // -D
  // The headers of the CUDA toolkit, which the host code includes; empty where there is none, and
  // then no host code may be seen outside of #ifdef __CUDACC__.
  std::string toolkit_headers;
  // Kernels by way of nvcc's PTX instead of their sources, and what else nvcc is told then.
  bool by_ptx = false;
  std::vector<std::string> nvcc_options;
  bool in_lockstep = false;     // lanes of a warp come to shared memory together; only by PTX
  HostCompilation compilation;  // without a source
};

struct ProgramKernels {
  std::vector<std::string> names;  // sorted
  std::string note;  // why they came by nvcc's PTX though nothing asked so, or ought to have
};

// Makes compilation.output; each compiler may take 900 s. What the host compiler does not read
// comes by nvcc's PTX where there is an nvcc, and so do kernels with volatile. INVALID_ARGUMENT if
// the program has no kernels or compiles neither way.
Result<ProgramKernels> compile_program_kernels(const Program& given);

// How C++ names the kernel of a symbol, so that it can be pointed at: its name with template
// arguments, and the types of its parameters (empty for an extern "C" kernel, whose symbol says
// nothing of them).
struct KernelExpression {
  std::string name;
  std::string parameters;
  bool operator==(const KernelExpression&) const = default;
};
KernelExpression expression_of_symbol(const std::string& symbol);

}  // namespace lambent::bundle
