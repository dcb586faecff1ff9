// PTX that a program makes while it runs, as the emulated driver gives it to lambent-bundle: files
// in a folder, from which a module for the host is made, and an answer that the driver reads
// (gpu/cuda_abi/ptx_job.h). Blocks; runs compilers as child processes.
#pragma once

#include <string>

#include "core/base/result.h"
#include "gpu/bundle/host_compiler.h"

namespace lambent::bundle {

struct PtxJob {
  std::string folder;
  std::string include_folder;
  std::string compiler;       // empty: clang++, else g++
  unsigned optimisation = 1;  // as the compiler's -O
};

// Bounds what this process and its children may take, closes what it inherited and makes the
// module. They end with the process that started this one.
Result<void> run_ptx_job(const PtxJob& job);

// What the driver reads, on standard output.
std::string answer_of(const Result<void>& outcome);

}  // namespace lambent::bundle
