#include "gpu/bundle/host_compiler.h"

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "core/base/fd.h"
#include "gpu/bundle/elf_module.h"
#include "gpu/cuda_abi/emulated_kernel.h"
#include "gpu/cuda_abi/host_compilers.h"

namespace lambent::bundle {
namespace {

// What a block may use at most on the largest device that we model.
constexpr uint64_t kMostDynamicShared = 227 * 1024;
constexpr size_t kMostModuleBytes = 256 * 1024 * 1024;
constexpr std::string_view kKernelPrefix = EMULATED_KERNEL_SYMBOL_PREFIX;

std::vector<std::string> compile_command(const HostCompilation& c, const std::string& compiler,
                                         const std::string& source, const std::string& object) {
  const std::string include = "-I" + c.include_folder;
  return {compiler, "-x", "c++", "-std=c++20", "-O3", "-march=" + c.architecture, "-fPIC",
          "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math", "-fno-exceptions",
          // One address for all thread-local variables of the module.
          "-ftls-model=local-dynamic", "-fno-plt", include + "/lambent/host/cuda", include,
          "-iquote" + (c.quote_folder.empty() ? "." : c.quote_folder), "-c", source, "-o", object};
}

// Assembler source for one buffer that has all the names of `extern __shared__` arrays.
std::string dynamic_shared_source(const std::vector<ThreadLocalSymbol>& symbols) {
  std::string text = ".section .tbss,\"awT\",@nobits\n.balign 256\n";
  for (const auto& symbol : symbols) {
    if (symbol.defined) continue;
    text += ".globl \"" + symbol.name + "\"\n.hidden \"" + symbol.name + "\"\n.type \"" +
            symbol.name + "\", @tls_object\n\"" + symbol.name + "\":\n";
  }
  return text + ".zero " + std::to_string(kMostDynamicShared) +
         "\n.section .note.GNU-stack,\"\",@progbits\n";
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&free)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &free);
  return status == 0 ? name.get() : symbol;
}

// The __shared__ variables in the body of the kernel that the source calls `expression`:
// "void matmul<16>(float*)::tile" or, for extern "C", "vector_add::tile".
uint64_t static_shared_bytes(const std::vector<ThreadLocalSymbol>& symbols,
                             const std::string& expression) {
  const std::string name = without_spaces(expression);
  uint64_t bytes = 0;
  for (const auto& symbol : symbols) {
    if (!symbol.defined || !symbol.name.starts_with("_ZZ")) continue;
    const std::string whole = without_spaces(demangled(symbol.name));
    if (whole.starts_with(name + "::") || whole.starts_with("void" + name + "(") ||
        whole.starts_with(name + "(")) {
      bytes += (symbol.bytes + 15) / 16 * 16;
    }
  }
  return bytes;
}

// The text of LAMBENT_KERNEL_AS's expression for a kernel is in the source, once.
std::string expression_of(const std::string& source, const std::string& kernel) {
  const std::string compact = without_spaces(source);
  const size_t at = compact.find("LAMBENT_KERNEL_AS(" + kernel + ",");
  if (at == std::string::npos) return kernel;
  const size_t begin = at + 18 + kernel.size() + 1;
  const size_t end = compact.find(");", begin);
  return end == std::string::npos ? kernel : compact.substr(begin, end - begin);
}

Result<void> write_static_shared(const HostCompilation& c,
                                 const std::vector<ThreadLocalSymbol>& symbols) {
  ASSIGN_OR_RETURN(std::string module, read_file(c.output, kMostModuleBytes));
  ASSIGN_OR_RETURN(const std::string source, read_file(c.source, kMostModuleBytes));
  ASSIGN_OR_RETURN(const auto kernels, symbols_with_prefix(module, kKernelPrefix));
  if (kernels.empty() && !c.may_lack_kernels) {
    return Error{ErrorCode::kInvalidArgument,
                 c.source + " registers no kernel: add LAMBENT_KERNEL(name);"};
  }
  for (const auto& kernel : kernels) {
    const uint64_t bytes = static_shared_bytes(symbols, expression_of(source, kernel));
    RETURN_IF_ERROR(patch_symbol(module, std::string(kKernelPrefix) + kernel,
                                 offsetof(emulated_kernel, static_shared_bytes),
                                 static_cast<uint32_t>(bytes)));
  }
  return write_file_atomically(c.output, module, false);
}

// Compiles `source`, gives its `extern __shared__` arrays their buffer, and links.
Result<ChildOutcome> compile_and_link(const HostCompilation& c, const std::string& compiler,
                                      const std::string& source,
                                      const std::vector<std::string>& options,
                                      std::vector<ThreadLocalSymbol>& symbols) {
  const std::string object = c.scratch_folder + "/host.o";
  auto command = compile_command(c, compiler, source, object);
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), c.options.begin(), c.options.end());
  ASSIGN_OR_RETURN(auto compiled, run_child(command, c.limits));
  if (compiled.exit_code != 0 || compiled.timed_out) return compiled;

  ASSIGN_OR_RETURN(const std::string bytes, read_file(object, kMostModuleBytes));
  ASSIGN_OR_RETURN(symbols, thread_local_symbols(bytes));
  const std::string buffer = c.scratch_folder + "/shared.s";
  RETURN_IF_ERROR(write_file_atomically(buffer, dynamic_shared_source(symbols), false));
  std::vector<std::string> link = {compiler,
                                   "-shared",
                                   "-fPIC",
                                   "-Wl,-z,defs",
                                   "-Wl,-z,noexecstack",
                                   "-Wl,--gc-sections",
                                   "-Wl,--wrap=clock",  // lambent/host/clock.h has it
                                   object,
                                   buffer,
                                   "-o",
                                   c.output,
                                   "-lm"};
  // Where the bundle is loaded libstdc++ may be older, or missing. Its archive is not installed
  // with every compiler.
  std::vector<std::string> portable = link;
  portable.push_back("-static-libstdc++");
  ASSIGN_OR_RETURN(auto linked, run_child(portable, c.limits));
  if (linked.exit_code == 0 && !linked.timed_out) return linked;
  return run_child(link, c.limits);
}

// With clang kernels become coroutines, which is some five times as fast at barriers as a stack for
// each thread. The header opens two regions of attributes for that, which end behind the source.
Result<ChildOutcome> compile_as_coroutines(const HostCompilation& c, const std::string& compiler,
                                           std::vector<ThreadLocalSymbol>& symbols) {
  const std::string whole = c.scratch_folder + "/coroutines.cc";
  const std::string source = std::filesystem::absolute(c.source).string();
  RETURN_IF_ERROR(write_file_atomically(whole,
                                        "#include \"" + source +
                                            "\"\n#pragma clang attribute pop\n"
                                            "#pragma clang attribute pop\n",
                                        false));
  return compile_and_link(c, compiler, whole,
                          {"-DLAMBENT_KERNEL_COROUTINES", "-fno-crash-diagnostics"}, symbols);
}

// It fails where a function with a barrier cannot be inlined, as when it calls itself, and where
// the source includes headers of libraries behind ours, whose functions then are looked for here:
// then the other way is left, and if the source is at fault it says so.
Result<ChildOutcome> run_one_compiler(const HostCompilation& c, const std::string& compiler,
                                      std::vector<ThreadLocalSymbol>& symbols) {
  if (compiler.find("clang") != std::string::npos) {
    ASSIGN_OR_RETURN(auto outcome, compile_as_coroutines(c, compiler, symbols));
    if (outcome.exit_code == 0 || outcome.timed_out) return outcome;
  }
  return compile_and_link(c, compiler, c.source, {}, symbols);
}

Result<ChildOutcome> run_compiler(const HostCompilation& c,
                                  std::vector<ThreadLocalSymbol>& symbols) {
  if (!c.compiler.empty()) return run_one_compiler(c, c.compiler, symbols);
  Result<ChildOutcome> outcome = Error{ErrorCode::kUnavailable, "none is named"};
  for (const char* compiler : cuda_abi::kHostCompilers) {
    outcome = run_one_compiler(c, compiler, symbols);
    if (outcome.ok() || outcome.error().code != ErrorCode::kUnavailable) return outcome;
  }
  return outcome.error().with_context("no host compiler: install clang or g++");
}

}  // namespace

Result<void> check_outcome(const ChildOutcome& outcome, const std::string& what) {
  if (outcome.timed_out) {
    return Error{ErrorCode::kDeadlineExceeded, what + ": took too long and was stopped"};
  }
  if (outcome.exit_code == 0) return {};
  if (outcome.exit_code > 128) {
    return Error{ErrorCode::kResourceExhausted,
                 what + ": ended by signal " + std::to_string(outcome.exit_code - 128) +
                     " (out of time or memory?)\n" + outcome.standard_error};
  }
  return Error{ErrorCode::kInvalidArgument,
               what + ":\n" + outcome.standard_error + outcome.standard_output};
}

Result<void> compile_for_host(const HostCompilation& c) {
  std::vector<ThreadLocalSymbol> symbols;
  ASSIGN_OR_RETURN(const auto outcome, run_compiler(c, symbols));
  RETURN_IF_ERROR(check_outcome(outcome, "compile " + c.source + " for the host"));
  return write_static_shared(c, symbols);
}

}  // namespace lambent::bundle
