#include "gpu/bundle/program_kernels.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/base/fd.h"
#include "gpu/bundle/elf_module.h"
#include "gpu/bundle/program_files.h"
#include "gpu/bundle/ptx_program.h"
#include "gpu/cuda_abi/emulated_kernel.h"
#include "gpu/cuda_abi/host_compilers.h"

namespace lambent::bundle {
namespace {

constexpr size_t kMostModuleBytes = 256 * 1024 * 1024;
// A compiler's, on a machine that may have other things to do. Some programs instantiate a kernel a
// hundred times, and the kernels of one sort by Thrust are some ten thousand instructions.
constexpr Duration kMostTime = seconds(900);
constexpr uint64_t kSharedAlignment_bytes = 16;
// Where kernels are put when they are looked for, so that they can be told from other functions.
constexpr std::string_view kKernelSection = "lambent_kernels";

// A function that is a template argument is demangled as `&(add(float, float))`, which is no C++.
std::string without_signatures(std::string name) {
  for (size_t at = 0; (at = name.find("&(", at)) != std::string::npos;) {
    int depth = 0;
    size_t signature = std::string::npos, end = at + 1;
    for (; end < name.size(); ++end) {
      const char c = name[end];
      if (c == '(' && depth == 1) signature = end;
      if (c == '(' || c == '<') ++depth;
      if (c == ')' || c == '>') --depth;
      if (depth == 0) break;
    }
    if (end >= name.size()) break;
    if (signature == std::string::npos) signature = end;
    name = name.substr(0, at + 1) + name.substr(at + 2, signature - at - 2) + name.substr(end + 1);
    ++at;
  }
  return name;
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&free)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &free);
  return status == 0 ? name.get() : symbol;
}

// Headers of the toolkit with nothing but declarations for host code.
bool is_host_header(const std::string& header) {
  if (header.starts_with("nvtx3/") || header == "nvToolsExt.h") return true;
  if (!header.ends_with(".h")) return false;
  const std::string name = header.substr(0, header.size() - 2);
  for (const char* whole :
       {"cuda", "cudaTypedefs", "cuda_runtime_api", "nvml", "nvrtc", "curand"}) {
    if (name == whole) return true;
  }
  const bool library = name.starts_with("cublas") || name.starts_with("cufft") ||
                       name.starts_with("cusparse") || name.starts_with("cusolver");
  return library && std::all_of(name.begin(), name.end(),
                                [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// In headers of libraries these words mean nothing, for no code here calls their functions for
// both sides; ours come with kernel.h.
constexpr std::string_view kWordsOfHosts =
    "#define __host__\n#define __device__\n#define __forceinline__ inline\n";

// What stands before the program. Headers of libraries come first: ours give words of C++ another
// meaning, and make coroutines of the functions that follow.
std::string prelude(const Program& program, const ProgramSource& source) {
  const std::filesystem::path ours = program.compilation.include_folder + "/lambent/host/cuda";
  std::error_code none;
  std::string first, host_api;
  for (const std::string& header : source.headers) {
    // Our part of CUB needs it, and comes too late to bring it itself.
    if (header.starts_with("cub/")) first += "#include <algorithm>\n";
    if (header.starts_with("lambent/") || std::filesystem::exists(ours / header, none)) continue;
    const bool in_toolkit =
        !program.toolkit_headers.empty() &&
        (std::filesystem::exists(std::filesystem::path(program.toolkit_headers) / header, none) ||
         header.starts_with("cuda/"));
    if (in_toolkit && !is_host_header(header)) continue;
    (in_toolkit ? host_api : first) +=
        "#if __has_include(<" + header + ">)\n#include <" + header + ">\n#endif\n";
  }
  if (!host_api.empty()) {
    host_api = std::string(kWordsOfHosts) + host_api;
  }
  return "#include <lambent/host/standard_names.h>\n" + first +
         "#include <lambent/host/toolkit.h>\n" + host_api + "#include <lambent/kernel.h>\n";
}

// Code that asks gets what runs on a Volta, without instructions for asynchronous copies; where
// nvcc makes code for an Ampere or later, first what runs on that, which has arithmetic of
// bfloat16.
constexpr int kVolta = 700, kAmpere = 800;

std::string architecture_macro(int architecture) {
  return "#ifndef __CUDA_ARCH__\n#define __CUDA_ARCH__ " + std::to_string(architecture) +
         "\n#endif\n";
}

// Of `-arch=sm_90`, `-arch sm_90`, `-gencode=arch=compute_80,code=sm_80` and their like, the
// latest.
int architecture_of(const std::vector<std::string>& nvcc_options) {
  int found = kVolta;
  for (const std::string& option : nvcc_options) {
    for (const std::string_view mark : {"sm_", "compute_"}) {
      for (size_t at = 0; (at = option.find(mark, at)) != std::string::npos;) {
        at += mark.size();
        found = std::max(found, 10 * std::atoi(option.c_str() + at));
      }
    }
  }
  return found < kAmpere ? kVolta : kAmpere;
}

std::vector<std::string> program_options(const Program& program) {
  std::vector<std::string> options = {"-w", "-fexceptions"};
  // What clang takes for errors though nvcc and the compiler behind it take it: `register`, numbers
  // that become narrower in braces, throw(), texts that macros follow without a blank.
  for (const char* each : {"register", "c++11-narrowing", "dynamic-exception-spec",
                           "reserved-user-defined-literal", "non-pod-varargs", "increment-bool"}) {
    options.push_back(std::string("-Wno-") + each);
  }
  for (const auto& folder : program.folders) options.push_back("-I" + folder);
  for (const auto& macro : program.macros) options.push_back("-D" + macro);
  if (!program.toolkit_headers.empty()) {
    options.insert(options.end(), {"-idirafter", program.toolkit_headers, "-idirafter",
                                   program.toolkit_headers + "/cccl"});
  }
  return options;
}

std::string names_of(const Program& program) {
  std::string names;
  for (const auto& file : program.files) names += (names.empty() ? "" : ", ") + file;
  return names;
}

// Compiles the program once so that its kernels can be told from its other functions, and lists
// them.
Result<std::vector<std::string>> find_kernels(const Program& program, const ProgramSource& source,
                                              int architecture) {
  const HostCompilation& c = program.compilation;
  const std::string wrapper = c.scratch_folder + "/find.cc", object = c.scratch_folder + "/find.o";
  RETURN_IF_ERROR(write_file_atomically(wrapper,
                                        prelude(program, source) +
                                            "#undef __global__\n"
                                            "#define LAMBENT_INSTANTIATION(...) __VA_ARGS__\n"
                                            "#define __global__ __attribute__((used, section(\"" +
                                            std::string(kKernelSection) + "\")))\n" +
                                            architecture_macro(architecture) + source.text,
                                        false));
  const auto run = [&](const std::string& compiler) {
    std::vector<std::string> command = {compiler,
                                        "-x",
                                        "c++",
                                        "-std=c++20",
                                        "-O0",
                                        "-fPIC",
                                        "-march=" + c.architecture,
                                        "-I" + c.include_folder + "/lambent/host/cuda",
                                        "-I" + c.include_folder,
                                        "-c",
                                        wrapper,
                                        "-o",
                                        object};
    const auto options = program_options(program);
    command.insert(command.end(), options.begin(), options.end());
    return run_child(command, c.limits);
  };
  std::vector<std::string> compilers = {c.compiler};
  if (c.compiler.empty()) {
    compilers.assign(std::begin(cuda_abi::kHostCompilers), std::end(cuda_abi::kHostCompilers));
  }
  Result<ChildOutcome> outcome = Error{ErrorCode::kUnavailable, "none is named"};
  for (const std::string& compiler : compilers) {
    outcome = run(compiler);
    if (outcome.ok() || outcome.error().code != ErrorCode::kUnavailable) break;
  }
  RETURN_IF_ERROR(outcome);
  std::string what = "compile " + names_of(program) + " for the host";
  if (program.files.size() > 1 &&
      outcome->standard_error.find("redefinition") != std::string::npos) {
    what +=
        " (the files are compiled as one: what is static or in an unnamed namespace needs a name "
        "of its own in each)";
  }
  RETURN_IF_ERROR(check_outcome(*outcome, what));
  ASSIGN_OR_RETURN(const std::string bytes, read_file(object, kMostModuleBytes));
  ASSIGN_OR_RETURN(auto kernels, functions_in_section(bytes, kKernelSection));
  std::sort(kernels.begin(), kernels.end());
  kernels.erase(std::unique(kernels.begin(), kernels.end()), kernels.end());
  if (kernels.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 names_of(program) +
                     " has no kernels for the host: kernels must stand outside of #ifdef "
                     "__CUDACC__, and templates must be launched or instantiated"};
  }
  return kernels;
}

// The program, followed by the registration of each kernel under its symbol.
std::string registering_source(const Program& program, const ProgramSource& source,
                               const std::vector<std::string>& kernels, int architecture) {
  std::string text = source.words.launches ? "#define LAMBENT_KERNELS_LAUNCH 1\n" : "";
  text += prelude(program, source) + architecture_macro(architecture) +
          "#define LAMBENT_INSTANTIATION(...)\n" + source.text + "\n";
  for (size_t i = 0; i < kernels.size(); ++i) {
    const KernelExpression expression = expression_of_symbol(kernels[i]);
    const std::string alias = "lambent_kernel_" + std::to_string(i);
    // The type of the alias picks one of several kernels of the same name.
    text += expression.parameters.empty()
                ? "constexpr auto& " + alias + " = " + expression.name + ";\n"
                : "constexpr void (&" + alias + ")" + expression.parameters + " = " +
                      expression.name + ";\n";
    text += "LAMBENT_KERNEL_AS(" + kernels[i] + ", " + alias + ");\n";
  }
  return text;
}

// A local variable's symbol begins with that of its function: _ZZ4vaddPfE4tile.
Result<void> write_shared_bytes(const HostCompilation& c, const std::vector<std::string>& kernels) {
  ASSIGN_OR_RETURN(std::string module, read_file(c.output, kMostModuleBytes));
  ASSIGN_OR_RETURN(const auto symbols, thread_local_symbols(module));
  for (const auto& kernel : kernels) {
    const std::string function =
        kernel.starts_with("_Z") ? kernel.substr(2) : std::to_string(kernel.size()) + kernel;
    uint64_t bytes = 0;
    for (const auto& symbol : symbols) {
      if (!symbol.name.starts_with("_ZZ" + function + "E")) continue;
      bytes += (symbol.bytes + kSharedAlignment_bytes - 1) / kSharedAlignment_bytes *
               kSharedAlignment_bytes;
    }
    RETURN_IF_ERROR(patch_symbol(module, EMULATED_KERNEL_SYMBOL_PREFIX + kernel,
                                 offsetof(emulated_kernel, static_shared_bytes),
                                 static_cast<uint32_t>(bytes)));
  }
  return write_file_atomically(c.output, module, false);
}

// Whether it launches kernels of Thrust or CUB, which only nvcc reads.
bool has_library_kernels(const HostCompilation& c, const ProgramSource& source) {
  const std::filesystem::path ours = c.include_folder + "/lambent/host/cuda";
  std::error_code none;
  bool has_cub = false;
  for (const std::string& header : source.headers) {
    const bool is_cub = header.starts_with("cub/");
    has_cub = has_cub || is_cub;
    if (!is_cub && !header.starts_with("thrust/")) continue;
    if (!std::filesystem::exists(ours / header, none)) return true;
  }
  if (!has_cub) return false;
  for (const char* algorithm :
       {"Reduce", "Scan", "RadixSort", "MergeSort", "SegmentedReduce", "SegmentedSort",
        "SegmentedRadixSort", "Select", "Partition", "Histogram", "RunLengthEncode", "For",
        "Transform", "AdjacentDifference", "Copy", "Memcpy", "Merge", "TopK"}) {
    if (source.text.find(std::string("Device") + algorithm + "::") != std::string::npos) {
      return true;
    }
  }
  return false;
}

// What a compiler's output says first of what is wrong.
std::string first_reason(const std::string& message) {
  for (const std::string_view mark : {"error: ", "not supported"}) {
    const size_t at = message.find(mark);
    if (at == std::string::npos) continue;
    const size_t line = message.rfind('\n', at) + 1;  // 0 if there is none
    return message.substr(line, message.find('\n', at) - line);
  }
  return message.substr(0, message.find('\n'));
}

// The kernels of the sources as the host compiler reads them.
Result<std::vector<std::string>> compile_sources(const Program& program,
                                                 const ProgramSource& source, int architecture) {
  const HostCompilation& c = program.compilation;
  ASSIGN_OR_RETURN(auto kernels, find_kernels(program, source, architecture));
  HostCompilation registering = c;
  registering.source = c.scratch_folder + "/register.cc";
  registering.quote_folder = std::filesystem::path(program.files.front()).parent_path().string();
  registering.options = program_options(program);
  // What is not used, host code above all, goes when the module is linked.
  registering.options.insert(registering.options.end(), {"-ffunction-sections", "-fdata-sections"});
  RETURN_IF_ERROR(write_file_atomically(
      registering.source, registering_source(program, source, kernels, architecture), false));
  RETURN_IF_ERROR(compile_for_host(registering));
  RETURN_IF_ERROR(write_shared_bytes(c, kernels));
  return kernels;
}

}  // namespace

KernelExpression expression_of_symbol(const std::string& symbol) {
  const std::string whole = without_signatures(demangled(symbol));
  if (whole == symbol) return {symbol, ""};
  // "void matmul<16>(float const*, int)": the parameters are the last parentheses outside of
  // template arguments, and only instances of templates tell their result.
  int depth = 0;
  size_t open = std::string::npos;
  for (size_t i = 0; i < whole.size(); ++i) {
    const char c = whole[i];
    if (c == '(' && depth == 0 && open == std::string::npos) open = i;
    if (c == '<' || c == '(') ++depth;
    if (c == '>' || c == ')') --depth;
  }
  if (open == std::string::npos) return {whole, ""};
  std::string name = whole.substr(0, open);
  if (name.starts_with("void ")) name.erase(0, 5);
  return {name, whole.substr(open)};
}

Result<ProgramKernels> compile_program_kernels(const Program& given) {
  Program program = given;
  program.compilation.limits.wall_time = kMostTime;
  const auto by_ptx = [&](std::string note) -> Result<ProgramKernels> {
    ASSIGN_OR_RETURN(auto names, compile_ptx_kernels(program));
    return ProgramKernels{std::move(names), std::move(note)};
  };
  if (program.by_ptx || program.in_lockstep || is_ptx(program.files)) return by_ptx("");
  const HostCompilation& c = program.compilation;
  const auto source = read_program(program.files, program.folders, c.scratch_folder);
  if (source.ok() && has_library_kernels(c, *source)) return by_ptx("");
  // Only PTX says which accesses are volatile, and threads of a warp meet there.
  std::string note;
  std::optional<Error> not_translated;
  if (source.ok() && source->words.has_volatile) {
    note =
        names_of(program) +
        ": threads of a warp may hand each other values through what its kernels say is volatile";
    auto translated = by_ptx(note + ", so they are translated from nvcc's PTX");
    if (translated.ok()) return translated;
    not_translated = translated.error();
    note += ": without __syncwarp they are wrong here, for nvcc's PTX cannot be used: " +
            first_reason(not_translated->message);
  }
  const int architecture = architecture_of(program.nvcc_options);
  auto kernels = source.ok() ? compile_sources(program, *source, architecture)
                             : Result<std::vector<std::string>>(source.error());
  if (source.ok() && !kernels.ok() && architecture != kVolta &&
      kernels.error().code == ErrorCode::kInvalidArgument) {
    kernels = compile_sources(program, *source, kVolta);
  }
  if (kernels.ok()) return ProgramKernels{std::move(*kernels), std::move(note)};
  // nvcc reads what the host compiler does not. Where it fails as well, the first error tells more:
  // it names a line of the program.
  Error error = kernels.error();
  const bool is_of_program = error.code == ErrorCode::kInvalidArgument;
  if (!is_of_program || nvcc_of(program).empty()) return error;
  if (!not_translated.has_value()) {
    auto translated = by_ptx(names_of(program) +
                             ": the host compiler does not read it, so its kernels are translated "
                             "from nvcc's PTX (--ptx does so at once): " +
                             first_reason(error.message));
    if (translated.ok()) return translated;
    not_translated = translated.error();
  }
  error.message += "\nAnd by nvcc's PTX: " + not_translated->message;
  return error;
}

}  // namespace lambent::bundle
