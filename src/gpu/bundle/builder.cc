#include "gpu/bundle/builder.h"

#include <cctype>
#include <filesystem>
#include <system_error>

#include "core/base/fd.h"
#include "gpu/bundle/bundle.h"
#include "gpu/bundle/host_compiler.h"
#include "gpu/bundle/program_kernels.h"
#include "gpu/bundle/ptx_program.h"
#include "gpu/cuda_abi/ptx_job.h"

namespace lambent::bundle {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHostFile = "host-x86_64.so";
constexpr const char* kOlderPtx = "compute_75.ptx";  // for a T4
constexpr size_t kMostLibraryBytes = 64 * 1024 * 1024;

// A folder that is removed unless it was renamed away.
class ScratchFolder {
 public:
  explicit ScratchFolder(fs::path path) : path_(std::move(path)) {}
  ScratchFolder(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

Error file_error(const std::string& doing, const std::error_code& code) {
  return error_from_errno(doing, code.value());
}

Result<void> make_folder(const std::string& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) return file_error("create " + path, code);
  return {};
}

Result<void> check_output_folder(const std::string& folder) {
  std::error_code code;
  if (!fs::exists(folder, code)) return {};
  if (fs::exists(fs::path(folder) / kManifestFile, code)) return {};
  if (fs::is_directory(folder, code) && fs::is_empty(folder, code)) return {};
  return Error{ErrorCode::kAlreadyExists,
               folder + " exists and is no kernel bundle; give another folder"};
}

Result<std::vector<Kernel>> inspect(const BuildRequest& request, const std::string& module) {
  ASSIGN_OR_RETURN(const auto outcome,
                   run_child({request.worker_program, "inspect", module}, request.limits));
  RETURN_IF_ERROR(check_outcome(outcome, "inspect the host module of " + request.source));
  return parse_kernels(outcome.standard_output);
}

// Fills in the lowered names and adds the device images; a note if there is no NVRTC.
Result<std::string> add_device_images(const BuildRequest& request, const ScratchFolder& folder,
                                      Manifest& manifest) {
  const std::string cubin = request.architecture + ".cubin";
  std::vector<std::string> command = {request.worker_program,
                                      "compile-device",
                                      request.source,
                                      "--include",
                                      request.include_folder,
                                      "--arch",
                                      request.architecture,
                                      "--cubin",
                                      folder / cubin,
                                      "--ptx",
                                      folder / "compute_80.ptx",
                                      "--older-ptx",
                                      folder / kOlderPtx};
  for (const auto& kernel : manifest.kernels) {
    command.push_back("--kernel");
    command.push_back(kernel.expression);
  }
  ASSIGN_OR_RETURN(const auto outcome, run_child(command, request.limits));
  if (!outcome.timed_out && outcome.exit_code == exit_code_of(ErrorCode::kUnavailable)) {
    return "host image only: " + outcome.standard_error;
  }
  RETURN_IF_ERROR(check_outcome(outcome, "compile " + request.source + " for GPUs"));
  size_t begin = 0;
  for (auto& kernel : manifest.kernels) {
    const size_t end = outcome.standard_output.find('\n', begin);
    if (end == std::string::npos) return Error{ErrorCode::kInternal, "a lowered name is missing"};
    kernel.lowered = outcome.standard_output.substr(begin, end - begin);
    begin = end + 1;
  }
  manifest.images.push_back({request.architecture, cubin});
  manifest.images.push_back({"compute_80", "compute_80.ptx"});
  std::error_code ignored;
  if (fs::exists(folder / kOlderPtx, ignored)) manifest.images.push_back({"compute_75", kOlderPtx});
  return std::string();
}

// Compiles the source; a note if there are no device images.
Result<std::string> build_source(const BuildRequest& request, const ScratchFolder& folder,
                                 const HostCompilation& host, Manifest& manifest) {
  RETURN_IF_ERROR(compile_for_host(host));
  manifest.images.push_back({"host-x86_64", kHostFile});
  ASSIGN_OR_RETURN(manifest.kernels, inspect(request, host.output));
  if (request.host_only) return std::string();
  return add_device_images(request, folder, manifest);
}

// "compute_90a" of PTX that says ".target sm_90a, debug".
Result<std::string> virtual_machine_of(const std::string& ptx, const std::string& file) {
  constexpr std::string_view kTarget = ".target", kArchitecture = "sm_";
  const size_t target = ptx.find(kTarget);
  const size_t end = target == ptx.npos ? ptx.npos : ptx.find('\n', target);
  const size_t begin = ptx.find(kArchitecture, target);
  if (target == ptx.npos || begin >= end) {
    return Error{ErrorCode::kInvalidArgument, file + " is no PTX: it has no .target of a GPU"};
  }
  size_t last = begin + kArchitecture.size();
  while (last < ptx.size() && std::isalnum(static_cast<unsigned char>(ptx[last])) != 0) ++last;
  return "compute_" + ptx.substr(begin + kArchitecture.size(), last - begin - kArchitecture.size());
}

// A library of kernels that is compiled already: PTX says which parameters they have, is translated
// for the host, and is the device image as it is.
Result<void> take_library(const BuildRequest& request, const ScratchFolder& folder,
                          const HostCompilation& host, Manifest& manifest) {
  ASSIGN_OR_RETURN(const std::string ptx, read_file(request.source, kMostLibraryBytes));
  ASSIGN_OR_RETURN(const std::string machine, virtual_machine_of(ptx, request.source));
  const auto names = compile_ptx({ptx}, host, "-O2");
  if (!names.ok()) return names.error().with_context(request.source);
  if (names->empty()) {
    return Error{ErrorCode::kInvalidArgument, request.source + " has no kernels (.visible .entry)"};
  }
  manifest.images.push_back({"host-x86_64", kHostFile});
  ASSIGN_OR_RETURN(manifest.kernels, inspect(request, host.output));
  for (Kernel& kernel : manifest.kernels) {
    kernel.lowered = kernel.name;
    const KernelExpression expression = expression_of_symbol(kernel.name);
    kernel.expression = expression.name + expression.parameters;
  }
  if (request.host_only) return {};
  const std::string file = machine + ".ptx";
  manifest.images.push_back({machine, file});
  return write_file_atomically(folder / file, std::string(cuda_abi::kPtxOfBundle) + ptx, false);
}

Result<void> replace_folder(const std::string& from, const std::string& to) {
  std::error_code code;
  fs::remove_all(to, code);
  if (code) return file_error("remove " + to, code);
  fs::rename(from, to, code);
  if (code) return file_error("rename " + from + " to " + to, code);
  return {};
}

}  // namespace

Result<BuildOutcome> build_bundle(const BuildRequest& request) {
  const fs::path source(request.source);
  std::error_code code;
  if (!fs::is_regular_file(source, code)) {
    return Error{ErrorCode::kNotFound, "no such source file: " + request.source};
  }
  RETURN_IF_ERROR(check_output_folder(request.output_folder));
  fs::path output = fs::path(request.output_folder).lexically_normal();
  if (!output.has_filename()) output = output.parent_path();

  const std::string fresh = output.string() + ".new";
  const ScratchFolder folder{fs::path(fresh)};
  const ScratchFolder scratch{fs::path(output.string() + ".scratch")};
  fs::remove_all(fresh, code);
  const std::string copy = "src/" + source.filename().string();
  RETURN_IF_ERROR(make_folder(folder / "src"));
  RETURN_IF_ERROR(make_folder(scratch / ""));
  fs::copy_file(source, folder / copy, code);
  if (code) return file_error("copy " + request.source, code);

  BuildOutcome outcome;
  Manifest& manifest = outcome.manifest;
  manifest.name = request.name.empty() ? source.stem().string() : request.name;
  manifest.sources = {copy};
  HostCompilation host;
  host.source = request.source;
  host.include_folder = request.include_folder;
  host.output = folder / kHostFile;
  host.scratch_folder = scratch / "";
  host.compiler = request.host_compiler;
  host.limits = request.limits;
  if (is_ptx({request.source})) {
    RETURN_IF_ERROR(take_library(request, folder, host, manifest));
  } else {
    ASSIGN_OR_RETURN(outcome.note, build_source(request, folder, host, manifest));
  }

  ASSIGN_OR_RETURN(manifest.content_sha256, content_hash(fresh, manifest));
  RETURN_IF_ERROR(write_file_atomically(folder / kManifestFile, to_json(manifest), false));
  RETURN_IF_ERROR(replace_folder(fresh, output.string()));
  return outcome;
}

}  // namespace lambent::bundle
