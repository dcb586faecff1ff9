#include "node/worker/deployment_package.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/archive/zip.h"
#include "core/base/fd.h"
#include "core/domain/image_function.h"
#include "core/domain/kernel_graph_service.h"
#include "node/worker/cuda_packages.h"
#include "node/worker/kernel_package.h"
#include "node/worker/pipeline_planning.h"

namespace lambent::worker {
namespace {

// Whether a file of its package says what it does.
bool has_graph(FunctionKind kind) {
  return kind != FunctionKind::kHandler && kind != FunctionKind::kHttp;
}

// Checks a kernel function's package; the memory that its requests take is what it asks for, unless
// it asks for more. Blocks.
Result<void> fit_to_package(FunctionSpec& spec, const KernelPackageOptions& package, Bytes most) {
  ASSIGN_OR_RETURN(const Bytes needed, check_kernel_package(package, most));
  if (spec.gpu.memory == Bytes(0)) spec.gpu.memory = needed;
  if (spec.gpu.memory < needed) {
    return Error{ErrorCode::kInvalidArgument, "gpu.memory is " + to_string(spec.gpu.memory) +
                                                  ", but a request takes " + to_string(needed) +
                                                  "; leave it out to have what is needed"};
  }
  return {};
}

// The package of a kept graph is the one that its digest names. Blocks.
Result<void> check_digest(const FunctionSpec& spec, std::string_view zip) {
  if (!is_kept_graph(spec.name) || archive::code_sha256(zip) == spec.code_sha256) return {};
  return Error{ErrorCode::kInvalidArgument,
               "package: its SHA-256 is another than that of the request's path; it was changed on "
               "the way, or is another package"};
}

// That what is mounted is there, by a path without links, as lambent-launcher will want it. Blocks.
Result<void> check_mounted(const Mounts& mounts, const std::vector<std::string>& folders) {
  for (size_t i = 0; i < folders.size(); ++i) {
    if (folders[i].empty()) continue;  // it comes from another node
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(folders[i], error);
    if (!error && real == folders[i] && std::filesystem::is_directory(real, error)) continue;
    const std::string& source = mounts[i].host.empty() ? mounts[i].volume : mounts[i].host;
    return Error{ErrorCode::kFailedPrecondition,
                 "the mount at " + mounts[i].at + ": " + source +
                     (error ? " is not there: " + error.message()
                            : std::string(" is no folder, or its path goes through a link"))};
  }
  return {};
}

}  // namespace

bool needs_files(const FunctionChange& change) {
  const bool has_zones = std::ranges::any_of(
      change.spec.schedules, [](const Schedule& schedule) { return !schedule.timezone.empty(); });
  return change.has_code() || has_graph(change.spec.kind) || !change.spec.mounts.empty() ||
         has_zones;
}

Result<void> unpack_package(const CodeStore& code, const DeploymentRules& rules,
                            DeploymentPackage& package) {
  FunctionSpec& spec = package.change.spec;
  RETURN_IF_ERROR(check_mounted(spec.mounts, package.mount_folders));
  ASSIGN_OR_RETURN(package.zones, read_time_zones(spec.schedules));
  if (runs_image(spec)) {
    if (!package.change.has_code()) return {};
    return Error{ErrorCode::kInvalidArgument, "a function of an image has no code beside it"};
  }
  std::string zip_base64 = std::exchange(package.change.zip_base64, {});
  std::string zip = std::exchange(package.change.zip, {});
  if (const std::string delta = std::exchange(package.change.delta, {}); !delta.empty()) {
    ASSIGN_OR_RETURN(zip, code.assemble(package.change.delta_base, delta, spec.code_sha256));
  }
  if (!zip_base64.empty()) RETURN_IF_ERROR(code.unpack_base64(std::move(zip_base64), spec));
  RETURN_IF_ERROR(check_digest(spec, zip));
  if (!zip.empty()) RETURN_IF_ERROR(code.unpack(zip, spec));
  const std::string folder = code.folder(spec);
  if (may_have_python_packages(spec.kind)) {
    ASSIGN_OR_RETURN(package.python, read_python_packages(folder));
    package.cuda_package = CudaPackages::find(folder);
  }
  if (spec.kind == FunctionKind::kKernel) {
    return fit_to_package(spec,
                          {folder, spec.handler, rules.built_in_kernels, spec.mounts,
                           package.mount_folders, package.change.dry_run},
                          std::max(most_device_memory(spec.kind, rules.functions),
                                   package.others.most() - rules.functions.call_workspace));
  }
  if (spec.kind == FunctionKind::kWorkflow) {
    ASSIGN_OR_RETURN(package.graph, read_workflow(folder, spec.handler));
  } else if (spec.kind == FunctionKind::kPipeline) {
    ASSIGN_OR_RETURN(package.pipeline, read_pipeline(folder, spec.handler));
    ASSIGN_OR_RETURN(package.planned,
                     plan_deployed(package.others, rules.pipelines, spec, *package.pipeline));
  }
  return {};
}

bool may_have_python_packages(FunctionKind kind) {
  return kind != FunctionKind::kKernel && kind != FunctionKind::kWorkflow;
}

Result<std::optional<PythonPackages>> read_python_packages(const std::string& folder) {
  const auto text = read_file(folder + "/" + kPythonPackagesFile, 2 * kMostRequirementText.count);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) {
    return std::optional<PythonPackages>();
  }
  if (!text.ok()) return text.error();
  ASSIGN_OR_RETURN(PythonPackages packages, parse_python_packages(*text));
  return std::optional(std::move(packages));
}

}  // namespace lambent::worker
