// Compiles kernels of PTX for the host: of files of PTX, or of a program that nvcc translates
// first, as one with Thrust has to. Blocks; runs compilers as child processes. Used by
// program_kernels.cc, and by ptx_job.cc for PTX that a program makes while it runs.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "gpu/bundle/program_kernels.h"
#include "gpu/bundle/ptx_function.h"

namespace lambent::bundle {

// The nvcc of the toolkit that the program has its headers from; empty where there is none that can
// be run.
std::string nvcc_of(const Program& program);

// Whether all files hold PTX by their names.
bool is_ptx(const std::vector<std::string>& files);

// Makes compilation.output and returns the kernels' names, sorted. INVALID_ARGUMENT for what cannot
// be read, UNIMPLEMENTED for what cannot be done on the host, UNAVAILABLE where there is no nvcc
// for files that are no PTX.
Result<std::vector<std::string>> compile_ptx_kernels(const Program& program);

// The same of modules that are linked as one, of which the linked one may have no kernels.
Result<std::vector<std::string>> compile_ptx(const std::vector<std::string>& modules,
                                             HostCompilation compilation,
                                             const std::string& optimisation,
                                             ptx::Lanes lanes = ptx::Lanes::kApart);

}  // namespace lambent::bundle
