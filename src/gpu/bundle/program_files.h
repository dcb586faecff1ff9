// Reads the files of a CUDA program and the headers that lie beside them, rewritten
// (program_source.h), as one text. Used by program_kernels.cc.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "gpu/bundle/program_source.h"

namespace lambent::bundle {

struct ProgramSource {
  std::string text;                  // includes the rewritten copies of local headers
  std::vector<std::string> headers;  // of #include <...>, in the order of their first use
  DeviceWords words;                 // of all of it
};

// Reads a program's files one after the other, and the headers that they include from beside them
// (by quotes) or from `folders`, whose rewritten copies it writes into `scratch_folder`.
Result<ProgramSource> read_program(const std::vector<std::string>& files,
                                   const std::vector<std::string>& folders,
                                   const std::string& scratch_folder);

}  // namespace lambent::bundle
