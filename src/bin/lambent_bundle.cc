// lambent-bundle: builds kernel bundles and shows what is in them. Of its hidden verbs inspect and
// compile-device are the child processes of `build`, and compile-ptx that of the emulated driver:
// they read foreign code and may crash.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <utility>

#include "bin/usage.h"
#include "core/base/fd.h"
#include "core/base/log.h"
#include "gpu/bundle/builder.h"
#include "gpu/bundle/bundle.h"
#include "gpu/bundle/device_compiler.h"
#include "gpu/bundle/inspection.h"
#include "gpu/bundle/program_kernels.h"
#include "gpu/bundle/ptx_job.h"
#include "gpu/cuda_abi/ptx_job.h"

namespace {

using lambent::Error;
using lambent::Result;

int fail(const Error& error, bool json) {
  if (json) {
    std::fprintf(stderr, "{\"error\":\"%s\",\"message\":\"%s\"}\n",
                 std::string(name_of(error.code)).c_str(),
                 lambent::json_escape(error.message).c_str());
  } else {
    std::fprintf(stderr, "lambent-bundle: %s\n", error.message.c_str());
  }
  return exit_code_of(error.code);
}

void print(const lambent::bundle::Manifest& manifest, bool json) {
  if (json) {
    std::fputs(to_json(manifest).c_str(), stdout);
    return;
  }
  std::cout << manifest.name << "  " << manifest.content_sha256.substr(0, 12) << "\n";
  for (const auto& image : manifest.images) std::cout << "  " << image.file << "\n";
  for (const auto& kernel : manifest.kernels) {
    std::cout << "  kernel " << kernel.name;
    if (kernel.expression != kernel.name) std::cout << " = " << kernel.expression;
    std::cout << ": " << kernel.parameter_sizes.size() << " parameters (bytes:";
    for (const auto size : kernel.parameter_sizes) std::cout << " " << size;
    std::cout << "), " << kernel.static_shared_bytes << " bytes of static shared memory\n";
  }
}

Result<void> compile_device(const lambent::bundle::DeviceCompilation& compilation,
                            const std::string& cubin, const std::string& ptx,
                            const std::string& older_ptx) {
  ASSIGN_OR_RETURN(const auto code, compile_for_device(compilation));
  RETURN_IF_ERROR(lambent::write_file_atomically(cubin, code.cubin, false));
  const std::string head(lambent::cuda_abi::kPtxOfBundle);
  RETURN_IF_ERROR(lambent::write_file_atomically(ptx, head + code.ptx, false));
  if (!older_ptx.empty() && !code.older_ptx.empty()) {
    RETURN_IF_ERROR(lambent::write_file_atomically(older_ptx, head + code.older_ptx, false));
  }
  for (const auto& lowered : code.lowered) std::cout << lowered << "\n";
  return {};
}

// The include folder of the toolkit whose nvcc is found first; empty if there is none.
std::string toolkit_headers(std::string_view path) {
  namespace fs = std::filesystem;
  std::error_code none;
  std::vector<fs::path> compilers;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    compilers.emplace_back(fs::path(path.substr(begin, end - begin)) / "nvcc");
    begin = end + 1;
  }
  compilers.emplace_back("/usr/local/cuda/bin/nvcc");
  for (const auto& compiler : compilers) {
    const fs::path found = fs::canonical(compiler, none);
    if (none) continue;
    const fs::path headers = found.parent_path().parent_path() / "include";
    if (fs::exists(headers / "cuda_runtime.h", none)) return headers.string();
  }
  return "";
}

// The kernels of a CUDA program as one shared object, for the emulated driver to find beside it.
Result<lambent::bundle::ProgramKernels> build_host(lambent::bundle::Program program) {
  namespace fs = std::filesystem;
  std::error_code code;
  for (const std::string& file : program.files) {
    if (fs::is_regular_file(file, code)) continue;
    return Error{lambent::ErrorCode::kNotFound, "no such source file: " + file};
  }
  auto& compilation = program.compilation;
  compilation.scratch_folder = compilation.output + ".scratch";
  fs::create_directories(compilation.scratch_folder, code);
  if (code) {
    return lambent::error_from_errno("create " + compilation.scratch_folder, code.value());
  }
  auto kernels = compile_program_kernels(program);
  fs::remove_all(compilation.scratch_folder, code);
  return kernels;
}

// What the command line asks for.
struct Arguments {
  bool json = false;
  lambent::bundle::BuildRequest build;
  lambent::bundle::Program program;
  std::string folder;  // of a bundle
  std::string module;
  lambent::bundle::DeviceCompilation device;
  std::string cubin, ptx, older_ptx;
  lambent::bundle::PtxJob job;
};

CLI::App* add_build(CLI::App& app, Arguments& arguments) {
  auto& request = arguments.build;
  auto* build =
      app.add_subcommand("build", "compile a .cu file, or a library of PTX, into a bundle");
  build
      ->add_option("FILE", request.source,
                   "CUDA source that includes <lambent/kernel.h>, or a .ptx file that has kernels")
      ->required();
  build->add_option("-o,--output", request.output_folder, "the bundle's folder")->required();
  build->add_option("--name", request.name, "the bundle's name; by default the file's");
  build->add_option("--arch", request.architecture, "GPU architecture of the cubin")
      ->capture_default_str()
      ->check([](const std::string& text) {
        return text.starts_with("sm_") ? "" : "an architecture looks like sm_90";
      });
  build->add_flag("--host-only", request.host_only, "no device images, even with a CUDA toolkit");
  build->add_option("--host-compiler", request.host_compiler,
                    "the compiler (default: clang++, else g++)");
  build->add_option("--include", request.include_folder, "folder that holds lambent/kernel.h");
  build->add_flag("--json", arguments.json, "print the manifest as JSON");
  build->footer(
      "Example:\n  lambent-bundle build vector_add.cu -o bundles/vector_add --arch sm_80");
  return build;
}

CLI::App* add_host(CLI::App& app, Arguments& arguments) {
  auto& program = arguments.program;
  auto* host = app.add_subcommand("host", "compile the kernels of a CUDA program for the emulator");
  host->add_option("FILE", program.files, "the program's CUDA sources, or its PTX; compiled as one")
      ->required();
  host->add_option("-o,--output", program.compilation.output,
                   "PROGRAM.kernels.so, beside the program")
      ->required();
  host->add_option("--host-compiler", program.compilation.compiler,
                   "the compiler (default: clang++, else g++)");
  host->add_option("--include", program.compilation.include_folder,
                   "folder that holds lambent/kernel.h");
  host->add_option("-I", program.folders, "where else the program's headers lie; as nvcc's")
      ->allow_extra_args(false);
  host->add_option("-D", program.macros, "a macro of the program: NAME or NAME=VALUE; as nvcc's")
      ->allow_extra_args(false);
  host->add_option("--toolkit-headers", program.toolkit_headers,
                   "the include folder of the CUDA toolkit; default: of the nvcc on the PATH");
  host->add_flag(
      "--ptx", program.by_ptx,
      "translate what nvcc makes of the sources, not the sources; so for Thrust, and for what "
      "the host compiler does not read, anyway");
  host->add_flag("--lockstep", program.in_lockstep,
                 "lanes of a warp come to each access of shared memory together, for programs that "
                 "lack __syncwarp; by PTX, slower");
  host->add_option("--nvcc", program.nvcc_options,
                   "an option of nvcc for --ptx, such as -arch=sm_80: those the program was built "
                   "with")
      ->allow_extra_args(false);
  host->footer(
      "Example:\n  nvcc -cudart shared vadd.cu -o vadd\n"
      "  lambent-bundle host vadd.cu -o vadd.kernels.so");
  return host;
}

CLI::App* add_show(CLI::App& app, Arguments& arguments) {
  auto* show = app.add_subcommand("show", "verify a bundle and list its kernels");
  show->add_option("DIR", arguments.folder, "the bundle's folder")->required();
  show->add_flag("--json", arguments.json, "print the manifest as JSON");
  show->footer("Example:\n  lambent-bundle show bundles/vector_add --json");
  return show;
}

CLI::App* add_inspect(CLI::App& app, Arguments& arguments) {
  auto* inspect = app.add_subcommand("inspect", "")->group("");
  inspect->add_option("MODULE", arguments.module)->required();
  return inspect;
}

CLI::App* add_compile_device(CLI::App& app, Arguments& arguments) {
  auto& device = arguments.device;
  auto* compile = app.add_subcommand("compile-device", "")->group("");
  compile->add_option("FILE", device.source)->required();
  compile->add_option("--include", device.include_folder)->required();
  compile->add_option("--arch", device.architecture)->required();
  compile->add_option("--cubin", arguments.cubin)->required();
  compile->add_option("--ptx", arguments.ptx)->required();
  compile->add_option("--older-ptx", arguments.older_ptx);
  compile->add_option("--kernel", device.expressions);
  return compile;
}

CLI::App* add_compile_ptx(CLI::App& app, Arguments& arguments) {
  auto* compile = app.add_subcommand("compile-ptx", "")->group("");
  compile->add_option("FOLDER", arguments.job.folder)->required();
  compile->add_option("--include", arguments.job.include_folder);
  compile->add_option("--host-compiler", arguments.job.compiler);
  compile->add_option("--optimisation", arguments.job.optimisation);
  return compile;
}

// Each does what a verb asks for, and returns the exit code.
int run_build(const Arguments& arguments) {
  const auto built = build_bundle(arguments.build);
  if (!built.ok()) return fail(built.error(), arguments.json);
  print(built->manifest, arguments.json);
  if (!built->note.empty()) std::fprintf(stderr, "%s", built->note.c_str());
  return 0;
}

int run_host(const Arguments& arguments) {
  const auto kernels = build_host(arguments.program);
  if (!kernels.ok()) return fail(kernels.error(), false);
  if (!kernels->note.empty()) std::fprintf(stderr, "lambent-bundle: %s\n", kernels->note.c_str());
  for (const auto& kernel : kernels->names) std::printf("%s\n", kernel.c_str());
  return 0;
}

int run_show(const Arguments& arguments) {
  const auto bundle = lambent::bundle::Bundle::open(arguments.folder);
  if (!bundle.ok()) return fail(bundle.error(), arguments.json);
  print(bundle->manifest(), arguments.json);
  return 0;
}

int run_inspect(const Arguments& arguments) {
  const auto kernels = lambent::bundle::inspect_host_module(arguments.module);
  if (!kernels.ok()) return fail(kernels.error(), false);
  std::fputs(to_json(*kernels).c_str(), stdout);
  return 0;
}

int run_compile_device(const Arguments& arguments) {
  const auto compiled =
      compile_device(arguments.device, arguments.cubin, arguments.ptx, arguments.older_ptx);
  return compiled.ok() ? 0 : fail(compiled.error(), false);
}

int run_compile_ptx(const Arguments& arguments) {
  const auto outcome = run_ptx_job(arguments.job);
  std::fputs(lambent::bundle::answer_of(outcome).c_str(), stdout);
  return outcome.ok() ? 0 : exit_code_of(outcome.error().code);
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  CLI::App app("Builds and shows kernel bundles.", "lambent-bundle");
  app.footer(
      "Example:\n  lambent-bundle build vector_add.cu -o bundles/vector_add\n"
      "  lambent-bundle show bundles/vector_add");
  app.require_subcommand(1);
  Arguments arguments;
  arguments.build.worker_program = self.string();
  arguments.build.include_folder =
      (self.parent_path().parent_path() / "share/lambent/include").string();
  arguments.program.compilation.include_folder = arguments.build.include_folder;
  arguments.job.include_folder = arguments.build.include_folder;
  const char* path = std::getenv("PATH");
  arguments.program.toolkit_headers = toolkit_headers(path != nullptr ? path : "");
  const std::pair<CLI::App*, int (*)(const Arguments&)> verbs[] = {
      {add_build(app, arguments), run_build},
      {add_host(app, arguments), run_host},
      {add_show(app, arguments), run_show},
      {add_inspect(app, arguments), run_inspect},
      {add_compile_device(app, arguments), run_compile_device},
      {add_compile_ptx(app, arguments), run_compile_ptx}};

  if (const auto exit_code = lambent::bin::parse(app, argc, argv)) return *exit_code;
  for (const auto& [verb, run] : verbs) {
    if (*verb) return run(arguments);
  }
  return 0;
}
