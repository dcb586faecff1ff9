// Compiles one .cu file for the host: a shared object for the emulated driver.
// Blocks; runs the compiler as a child process. Used by the builder.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "gpu/bundle/child_process.h"

namespace lambent::bundle {

struct HostCompilation {
  std::string source;
  std::string include_folder;  // holds lambent/kernel.h
  std::string quote_folder;    // where else #include "..." looks; empty: the current folder
  std::string output;          // the shared object
  std::string scratch_folder;  // for the files in between
  std::string compiler;        // empty: clang++, else g++
  // AVX2: without it the compiler has no masked stores and cannot vectorise over threads.
  std::string architecture = "x86-64-v3";
  std::vector<std::string> options;  // more of them, for the compiler
  bool may_lack_kernels = false;     // otherwise a source without any is an error
  ChildLimits limits;
};

// INVALID_ARGUMENT with the compiler's messages if the source does not compile, UNAVAILABLE if
// there is no compiler, DEADLINE_EXCEEDED if it takes too long.
Result<void> compile_for_host(const HostCompilation& compilation);

// Maps a failed or over-long compiler to an error; `what` such as "compile x.cu for the host".
Result<void> check_outcome(const ChildOutcome& outcome, const std::string& what);

}  // namespace lambent::bundle
