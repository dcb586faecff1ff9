#include "bin/image_settings.h"

#include <filesystem>
#include <utility>

#include "bin/environment_settings.h"
#include "core/domain/image_function.h"
#include "node/images/image_tree.h"
#include "node/worker/system_folder.h"

namespace lambent {
namespace {

// What functions with a GPU are shown, and is linked with the host's C library.
std::string glibc_needed_by_gpus(const worker::SandboxSetting& sandboxes) {
  std::string needed = images::glibc_needed_by(sandboxes.shim_folder + "/liblambent_shim.so");
  if (sandboxes.gpu.folder.empty()) return needed;
  std::string driver = images::glibc_needed_by(sandboxes.gpu.folder + "/libcuda.so.1");
  return images::is_version_at_least(needed, driver) ? needed : driver;
}

// Of a folder of the system: the driver's own, by the names that NVIDIA gives them.
std::vector<std::string> driver_libraries(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    const bool is_one = name.starts_with("libcuda.so.") || name.starts_with("libnvidia-ml.so.") ||
                        name.starts_with("libnvidia-ptxjitcompiler.so.") ||
                        name.starts_with("libnvidia-nvvm") ||
                        name.starts_with("libnvidia-gpucomp.so.");
    if (is_one) names.push_back(name);
  }
  return names;
}

}  // namespace

Result<std::unique_ptr<images::ImageStore>> open_images(const WorkerConfig& config,
                                                        const Installation& installation,
                                                        loop::EventLoop& loop, LogSink& log,
                                                        images::ImageStore::Offload offload,
                                                        worker::SandboxSetting& sandboxes) {
  images::ImageOptions options;
  options.folder = config.state_folder + "/images";
  options.program = installation.program("lambent-environment");
  options.skopeo = search_program("skopeo", installation);
  options.umoci = search_program("umoci", installation);
  options.registries = config.image_registries;
  options.variables = proxy_variables();
  options.most = config.images_size;
  options.timeout = config.environment_timeout;
  options.keeps_layouts = !config.cluster_key.empty();
  if (!config.registry_auth.empty()) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(config.registry_auth, error)) {
      return Error{ErrorCode::kNotFound,
                   "--registry-auth: there is no file " + config.registry_auth};
    }
    options.auth_file = std::filesystem::canonical(config.registry_auth, error);
  }
  options.glibc_needed = glibc_needed_by_gpus(sandboxes);
  if (worker::is_in_system(sandboxes.gpu.folder)) {
    sandboxes.gpu.libraries = driver_libraries(sandboxes.gpu.folder);
  }
  auto store =
      std::make_unique<images::ImageStore>(loop, log, std::move(offload), std::move(options));
  RETURN_IF_ERROR(store->recover());
  sandboxes.image_of = [&store = *store](const FunctionSpec& spec) -> Result<worker::SandboxImage> {
    ASSIGN_OR_RETURN(const ImageCommand command, parse_image_command(spec.handler));
    ASSIGN_OR_RETURN(images::ImageStart start, store.start(command));
    return worker::SandboxImage{.folder = std::move(start.folder),
                                .command = std::move(start.command),
                                .environment = std::move(start.environment),
                                .working_directory = std::move(start.working_directory),
                                .user = start.user};
  };
  return store;
}

}  // namespace lambent
