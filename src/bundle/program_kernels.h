// Compiles the kernels of an ordinary CUDA program for the host: every kernel of one .cu file that
// is defined or explicitly instantiated where the host compiler sees it, under the name that nvcc
// gives it. Blocks; runs the compiler as a child process. Used by lambent-bundle.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bundle/host_compiler.h"

namespace lambent::bundle {

// Makes compilation.output from compilation.source and returns the kernels' names, sorted.
// INVALID_ARGUMENT if the source has no kernels or does not compile.
Result<std::vector<std::string>> compile_program_kernels(const HostCompilation& compilation);

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
