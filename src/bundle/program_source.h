// A CUDA program rewritten so that a host compiler accepts it whole and finds its kernels: launches
// become plain calls, which never run and only say which instances of templates there are, and
// what has a name in its file alone gets one that can be found. Pure, apart from read_program,
// which reads the files. Used by program_kernels.cc.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lambent::bundle {

// The namespace that stands for unnamed ones (emulated_runtime/device_names.cc knows it too).
constexpr std::string_view kUnnamedNamespace = "lambent_unnamed";

// What the rewriting asks of its caller for each #include: the path of the copy to be read instead
// of this file; empty if there is none.
using CopyOfHeader = std::function<std::string(std::string_view file, bool quoted)>;

// `kernel<<<grid, block>>>(x)` becomes `LAMBENT_LAUNCH kernel(x)`, which is never called and ends
// the kernel in which it is reached (lambent/host/failures.h); `static` is taken from kernels and
// variables of the device; an unnamed namespace gets a name. Lines stay where they are. The files
// of
// `#include <...>` that have no copy are added to `headers`.
std::string rewrite_program(std::string_view text, const CopyOfHeader& copy_of,
                            std::vector<std::string>* headers);

struct ProgramSource {
  std::string text;                  // includes the rewritten copies of local headers
  std::vector<std::string> headers;  // of #include <...>, in the order of their first use
};

// Reads a program's files one after the other, and the headers that they include from beside them
// (by quotes) or from `folders`, whose rewritten copies it writes into `scratch_folder`.
Result<ProgramSource> read_program(const std::vector<std::string>& files,
                                   const std::vector<std::string>& folders,
                                   const std::string& scratch_folder);

}  // namespace lambent::bundle
