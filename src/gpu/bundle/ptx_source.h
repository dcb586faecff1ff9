// A source of kernels for the host (lambent/kernel.h) out of modules of PTX. Pure; used by
// ptx_program.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace lambent::bundle {

struct PtxKernel {
  std::string name;
  uint64_t shared_bytes = 0;  // static ones
};

struct PtxSource {
  std::string text;
  std::vector<PtxKernel> kernels;
};

// Of modules that are linked as one. INVALID_ARGUMENT for what cannot be read, what the host cannot
// do, and what is declared and nowhere defined.
Result<PtxSource> source_of_ptx(const std::vector<std::string>& modules);

}  // namespace lambent::bundle
