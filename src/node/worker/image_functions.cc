#include "node/worker/image_functions.h"

#include <filesystem>

#include "core/domain/model_function.h"
#include "node/worker/gpu_tenancy.h"

namespace lambent::worker {

Result<void> check_image_function(const FunctionSpec& spec) {
  if (spec.kind != FunctionKind::kHandler && spec.kind != FunctionKind::kHttp) {
    return Error{ErrorCode::kInvalidArgument,
                 "a function of kind '" + std::string(name_of(spec.kind)) +
                     "' has no image; handlers and HTTP functions have"};
  }
  if (spec.cpu_variant || spec.gpu.runtime == GpuRuntime::kShared || serves_model(spec)) {
    return Error{ErrorCode::kInvalidArgument,
                 "a function of an image has no CPU variant and no shared GPU runtime"};
  }
  const auto command = parse_image_command(spec.handler);
  return command.ok() ? Result<void>{} : command.error();
}

Result<std::string> host_path_of(const HostPaths& paths, TenantId tenant,
                                 const ImageReference& image) {
  if (!image.is_local()) return std::string();
  const std::string what = "image " + text_of(image);
  const std::filesystem::path path = image.name;
  if (!path.is_absolute() || path.lexically_normal() != path || image.name.ends_with('/')) {
    return Error{ErrorCode::kInvalidArgument,
                 what + ": its path is absolute, and has no '.', '..' or '/' at its end"};
  }
  if (!paths) {
    return Error{ErrorCode::kPermissionDenied, what + ": this worker takes none of its machine"};
  }
  auto allowed = paths(tenant, image.name);
  return allowed.ok() ? std::move(allowed) : allowed.error().with_context(what);
}

bool has_image_elsewhere(const FunctionSpec& spec, const ImageReference& image) {
  return !image.digest.empty() && spec.code_sha256 == images::code_sha256_of(image.digest);
}

Result<void> fit_to_image(FunctionSpec& spec, const images::PulledImage& image,
                          const images::ImageStore& store, const FunctionRules& rules,
                          const OtherNodes& others) {
  ASSIGN_OR_RETURN(ImageCommand command, parse_image_command(spec.handler));
  const auto start = images::start_of(image, command);
  if (!start.ok()) return start.error();
  if (uses_a_gpu(spec) && could_run_here(spec, rules)) RETURN_IF_ERROR(store.check_gpu(image));
  command.image.digest = image.digest;
  spec.handler = text_of(command);
  spec.code_sha256 = images::code_sha256_of(image.digest);
  spec.code_size = image.size;
  // A port that the function does not name is the only one that the image names.
  const bool is_default = spec.http.port == HttpContract().port;
  if (is_default && image.config.ports.size() == 1) spec.http.port = image.config.ports.front();
  return check_function(as_function(spec), rules, others);
}

}  // namespace lambent::worker
