// Models with versions: folders in Triton's layout (NAME/3/model.onnx), or one model that is
// deployed under a number. Each becomes a version of the function, and the alias `serving` moves to
// the highest once that is loaded. Used by `lambent deploy`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "edge/cli/console.h"
#include "edge/cli/deploy.h"
#include "edge/cli/model_folder.h"
#include "edge/cli/transport.h"
#include "edge/cli/version_policy.h"

namespace lambent::cli {

// The versions that are to be there, packed.
struct ModelVersions {
  std::string name;
  std::map<uint64_t, Package> packages;
  // Which of those that the worker has stay; nothing: all.
  std::optional<VersionPolicy> keeps;
};
// INVALID_ARGUMENT, NOT_FOUND: a folder without its model, a config.pbtxt that contradicts it.
Result<ModelVersions> pack_model_folder(const ModelFolder& folder, const DeployOptions& options);
// Which of `there` are to be there, by the options and the folder's own files. As
// pack_model_folder.
Result<std::vector<uint64_t>> versions_to_serve(const std::string& folder,
                                                const std::set<uint64_t>& there,
                                                const DeployOptions& options);
// One model, under `options.model_version`.
Result<ModelVersions> pack_model_version(const DeployOptions& options);

// Publishes what the worker does not have, from the lowest number on, and lets requests that name
// no version go to the highest. What served them before stays until the next deployment, so that
// none of its requests is lost.
int run_deploy_versions(Transport& transport, Console& console, const ModelVersions& models,
                        const DeployOptions& options);
// All versions of a folder that are to be there.
int run_deploy_folder(Transport& transport, Console& console, const ModelFolder& folder,
                      const DeployOptions& options);
// All models of a repository. Goes on after a failure; the exit code is the first one's.
int run_deploy_repository(Transport& transport, Console& console,
                          const std::vector<ModelFolder>& repository, const DeployOptions& options);
// Those of a folder of a store (is_folder_url), once it has come.
int run_deploy_folder_url(Transport& transport, Console& console, const DeployOptions& options);

}  // namespace lambent::cli
