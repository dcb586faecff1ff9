#include "gpu/bundle/ptx_program.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>

#include "core/base/fd.h"
#include "gpu/bundle/elf_module.h"
#include "gpu/bundle/ptx_source.h"
#include "gpu/cuda_abi/emulated_kernel.h"

namespace lambent::bundle {
namespace {

constexpr size_t kMostPtxBytes = 256 * 1024 * 1024;
constexpr uint64_t kMostThreadsOfBlock = 1024;

// What nvcc makes of one file. The options are those that the program itself is compiled with: the
// names of Thrust's kernels say for which architectures.
Result<std::string> ptx_of_file(const Program& program, const std::string& file, size_t number) {
  const HostCompilation& c = program.compilation;
  const std::string nvcc = nvcc_of(program);
  if (nvcc.empty()) {
    return Error{ErrorCode::kUnavailable,
                 file +
                     ": its kernels are translated by the nvcc of a CUDA toolkit, and there is "
                     "none" +
                     (program.toolkit_headers.empty() ? "" : " beside " + program.toolkit_headers) +
                     ": put it on the PATH, or give --toolkit-headers"};
  }
  const std::string output = c.scratch_folder + "/" + std::to_string(number) + ".ptx";
  // What programs that need these two say to nvcc, and what changes nothing for others.
  std::vector<std::string> command = {
      nvcc, "-ptx", "-w",  "--extended-lambda", "--expt-relaxed-constexpr", "-x", "cu",
      file, "-o",   output};
  if (program.files.size() > 1) command.push_back("-rdc=true");
  for (const auto& folder : program.folders) command.push_back("-I" + folder);
  for (const auto& macro : program.macros) command.push_back("-D" + macro);
  command.insert(command.end(), program.nvcc_options.begin(), program.nvcc_options.end());
  ASSIGN_OR_RETURN(const auto outcome, run_child(command, c.limits));
  RETURN_IF_ERROR(check_outcome(outcome, "translate " + file + " to PTX by nvcc"));
  return read_file(output, kMostPtxBytes);
}

}  // namespace

std::string nvcc_of(const Program& program) {
  namespace fs = std::filesystem;
  if (program.toolkit_headers.empty()) return {};
  const fs::path beside = fs::path(program.toolkit_headers) / "../bin/nvcc";
  // A toolkit's include may be a link to the headers of one architecture, which has no bin.
  for (const fs::path& nvcc : {beside.lexically_normal(), beside}) {
    std::error_code ignored;
    const bool is_file = fs::is_regular_file(nvcc, ignored);
    if (is_file && ::access(nvcc.c_str(), X_OK) == 0) return nvcc.string();
  }
  return {};
}

bool is_ptx(const std::vector<std::string>& files) {
  return std::all_of(files.begin(), files.end(),
                     [](const std::string& file) { return file.ends_with(".ptx"); });
}

Result<std::vector<std::string>> compile_ptx_kernels(const Program& program) {
  std::vector<std::string> modules;
  for (const std::string& file : program.files) {
    ASSIGN_OR_RETURN(auto text, file.ends_with(".ptx")
                                    ? read_file(file, kMostPtxBytes)
                                    : ptx_of_file(program, file, modules.size()));
    modules.push_back(std::move(text));
  }
  const auto lanes = program.in_lockstep ? ptx::Lanes::kInLockstep : ptx::Lanes::kApart;
  ASSIGN_OR_RETURN(auto names, compile_ptx(modules, program.compilation, "-O2", lanes));
  if (names.empty()) return Error{ErrorCode::kInvalidArgument, "the PTX has no kernels"};
  return names;
}

Result<std::vector<std::string>> compile_ptx(const std::vector<std::string>& modules,
                                             HostCompilation compilation,
                                             const std::string& optimisation, ptx::Lanes lanes) {
  ASSIGN_OR_RETURN(const PtxSource source, source_of_ptx(modules, lanes));
  compilation.source = compilation.scratch_folder + "/ptx.cc";
  compilation.may_lack_kernels = true;
  // Nothing of the folder in which the program happens to run is taken for a header.
  compilation.quote_folder = compilation.scratch_folder;
  // nvcc has made a sum of a product one instruction where the program allows it.
  compilation.options.insert(compilation.options.end(),
                             {"-w", "-fno-strict-aliasing", "-ffp-contract=off", optimisation});
  RETURN_IF_ERROR(write_file_atomically(compilation.source, source.text, false));
  if (const auto compiled = compile_for_host(compilation); !compiled.ok()) {
    // What was read as PTX is none of the program's faults.
    Error error = compiled.error();
    if (error.code == ErrorCode::kInvalidArgument) error.code = ErrorCode::kUnimplemented;
    return error;
  }
  ASSIGN_OR_RETURN(std::string module, read_file(compilation.output, kMostPtxBytes));
  std::vector<std::string> names;
  for (const PtxKernel& kernel : source.kernels) {
    const std::string symbol = EMULATED_KERNEL_SYMBOL_PREFIX + kernel.name;
    RETURN_IF_ERROR(patch_symbol(module, symbol, offsetof(emulated_kernel, static_shared_bytes),
                                 static_cast<uint32_t>(kernel.shared_bytes)));
    if (kernel.most_threads != 0 && kernel.most_threads < kMostThreadsOfBlock) {
      RETURN_IF_ERROR(patch_symbol(module, symbol, offsetof(emulated_kernel, max_threads_per_block),
                                   static_cast<uint32_t>(kernel.most_threads)));
    }
    names.push_back(kernel.name);
  }
  RETURN_IF_ERROR(write_file_atomically(compilation.output, module, false));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lambent::bundle
