#include "bundle/program_kernels.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <regex>

#include "base/fd.h"
#include "bundle/elf_module.h"
#include "cuda_abi/emulated_kernel.h"

namespace lambent::bundle {
namespace {

constexpr size_t kMostModuleBytes = 256 * 1024 * 1024;
constexpr size_t kMostSourceBytes = 16 * 1024 * 1024;
constexpr uint64_t kSharedAlignment_bytes = 16;

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&free)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &free);
  return status == 0 ? name.get() : symbol;
}

std::string absolute(const std::string& path) {
  std::error_code none;
  const auto found = std::filesystem::absolute(path, none);
  return none ? path : found.string();
}

// Compiles the source once so that its kernels can be told from its other functions, and lists
// them.
Result<std::vector<std::string>> find_kernels(const HostCompilation& c) {
  const std::string wrapper = c.scratch_folder + "/find.cc", object = c.scratch_folder + "/find.o";
  RETURN_IF_ERROR(
      write_file_atomically(wrapper,
                            "#include <lambent/kernel.h>\n"
                            "#undef __global__\n"
                            "#define __global__ __attribute__((used, visibility(\"protected\")))\n"
                            "#include \"" +
                                absolute(c.source) + "\"\n",
                            false));
  const auto run = [&](const std::string& compiler) {
    return run_child(
        {compiler, "-x", "c++", "-std=c++20", "-O0", "-w", "-fPIC", "-fvisibility=hidden",
         "-march=" + c.architecture, "-I" + c.include_folder + "/lambent/host/cuda",
         "-I" + c.include_folder, "-c", wrapper, "-o", object},
        c.limits);
  };
  auto outcome = run(c.compiler.empty() ? "clang++" : c.compiler);
  if (!outcome.ok() && outcome.error().code == ErrorCode::kUnavailable && c.compiler.empty()) {
    outcome = run("g++");
  }
  RETURN_IF_ERROR(outcome);
  RETURN_IF_ERROR(check_outcome(*outcome, "compile " + c.source + " for the host"));
  ASSIGN_OR_RETURN(const std::string bytes, read_file(object, kMostModuleBytes));
  ASSIGN_OR_RETURN(auto kernels, protected_functions(bytes));
  std::sort(kernels.begin(), kernels.end());
  kernels.erase(std::unique(kernels.begin(), kernels.end()), kernels.end());
  if (kernels.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 c.source +
                     " has no kernels for the host: they must stand outside of #ifdef __CUDACC__, "
                     "and templates must be instantiated explicitly"};
  }
  return kernels;
}

// Takes out `template __global__ void kernel<16>(...);`: kernels are inlined where they are used,
// and what is inline cannot be instantiated explicitly.
std::string without_instantiations(const std::string& source) {
  static const std::regex instantiation(
      "(^|[\\n;}])([ \\t]*)template\\s+(void\\s+)?__global__[^;{]*;");
  return std::regex_replace(source, instantiation, "$1$2");
}

// The source, followed by the registration of each kernel under its symbol.
std::string registering_source(const std::string& path, const std::string& source,
                               const std::vector<std::string>& kernels) {
  std::string text = "#include <lambent/kernel.h>\n#line 1 \"" + absolute(path) + "\"\n" +
                     without_instantiations(source) + "\n";
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

}  // namespace

KernelExpression expression_of_symbol(const std::string& symbol) {
  const std::string whole = demangled(symbol);
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

Result<std::vector<std::string>> compile_program_kernels(const HostCompilation& compilation) {
  ASSIGN_OR_RETURN(auto kernels, find_kernels(compilation));
  HostCompilation registering = compilation;
  registering.source = compilation.scratch_folder + "/register.cc";
  registering.quote_folder =
      std::filesystem::path(absolute(compilation.source)).parent_path().string();
  ASSIGN_OR_RETURN(const std::string source, read_file(compilation.source, kMostSourceBytes));
  RETURN_IF_ERROR(write_file_atomically(
      registering.source, registering_source(compilation.source, source, kernels), false));
  RETURN_IF_ERROR(compile_for_host(registering));
  RETURN_IF_ERROR(write_shared_bytes(compilation, kernels));
  return kernels;
}

}  // namespace lambent::bundle
