// A source of kernels for the host (lambent/kernel.h) out of modules of PTX. Pure; used by
// ptx_program.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "gpu/bundle/ptx_function.h"

namespace lambent::bundle {

struct PtxKernel {
  std::string name;
  uint64_t shared_bytes = 0;  // static ones
  uint64_t most_threads = 0;  // of a block; 0: as many as the device allows
};

struct PtxSource {
  std::string text;
  std::vector<PtxKernel> kernels;
};

// Of modules that are linked as one. INVALID_ARGUMENT for what cannot be read and what is declared
// and nowhere defined, UNIMPLEMENTED for what the host cannot do.
Result<PtxSource> source_of_ptx(const std::vector<std::string>& modules,
                                ptx::Lanes lanes = ptx::Lanes::kApart);

}  // namespace lambent::bundle
