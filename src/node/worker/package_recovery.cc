#include "node/worker/package_recovery.h"

#include "core/archive/zip.h"
#include "node/worker/deployment_package.h"
#include "node/worker/image_access.h"

namespace lambent::worker {
namespace {

// Between two attempts to have the image of a function that was here before.
constexpr Duration kImagePeriod = seconds(10);

}  // namespace

void PackageRecovery::recover(const FunctionSpec& spec) {
  if (runs_image(spec)) return recover_image(spec);
  if (!may_have_python_packages(spec.kind)) return;
  uses_.cuda_packages.recover(spec.code_sha256, uses_.code.folder(spec));
  if (uses_.environments == nullptr) return;
  const std::string code = archive::code_folder_name(spec.code_sha256);
  uses_.cuda_packages.recover(spec.code_sha256, uses_.environments->folder_of(code));
  if (uses_.environments->has(code)) return;
  const auto packages = read_python_packages(uses_.code.folder(spec));
  if (!packages.ok() || !*packages) return;
  uses_.environments->ensure(code, **packages, [this, name = spec.name](Result<void> ready) {
    if (ready.ok()) return;
    uses_.log.error("packages_not_installed", {{"function", name.name},
                                               {"tenant", int64_t{name.tenant.value}},
                                               {"error", to_string(ready.error())}});
  });
}

void PackageRecovery::recover_image(const FunctionSpec& spec) {
  const auto command = parse_image_command(spec.handler);
  if (uses_.images == nullptr || !command.ok() || uses_.images->find(command->image.digest)) return;
  const auto failed = [this, name = spec.name](const Error& error) {
    uses_.log.error("image_not_pulled", {{"function", name.name},
                                         {"tenant", int64_t{name.tenant.value}},
                                         {"error", to_string(error)}});
  };
  // Where this node may not read it, another node may have it.
  auto path = host_path_of(uses_.host_path, spec.name.tenant, command->image);
  if (!path.ok() && has_image_elsewhere(spec, command->image)) path = std::string();
  if (!path.ok()) return failed(path.error());
  auto access = image_access(spec.name.tenant, command->image, uses_.functions, uses_.revisions,
                             uses_.secrets);
  if (!access.ok()) return failed(access.error());
  access->is_known = true;
  access->is_elsewhere = has_image_elsewhere(spec, command->image);
  uses_.images->ensure(command->image, *path, *access,
                       [this, failed, name = spec.name](const Result<images::PulledImage>& here) {
                         if (here.ok()) return;
                         failed(here.error());
                         if (!is_retryable(here.error().code)) return;
                         // Other nodes, which may have it, are told of when this one runs.
                         uses_.loop.call_after(kImagePeriod, [this, name] {
                           const FunctionSpec* now = uses_.functions.find(name);
                           if (now != nullptr && runs_image(*now)) recover_image(*now);
                         });
                       });
}

}  // namespace lambent::worker
