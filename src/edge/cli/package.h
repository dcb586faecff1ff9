// Package: a function as its manifest describes it, packed, with what it needs beside it. Blocks;
// used by deploy, on its thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "edge/cli/deploy_options.h"
#include "edge/cli/fetch_cache.h"
#include "edge/cli/manifest.h"
#include "edge/cli/model_weights.h"
#include "edge/cli/staging.h"

namespace lambent::cli {

// A function as its manifest describes it, with its code and kernel bundles packed, and the
// packages of its components, if it is a workflow.
struct Package {
  std::string file;  // of the manifest
  Manifest manifest;
  std::string zip;
  bool is_model = false;                     // it answers by the Open Inference Protocol
  std::optional<ModelWeights> weights = {};  // files that are too large for the zip
  std::vector<Package> components;
  std::shared_ptr<const StagingFolder> staging = {};  // where `weights` lie that were made
  // What was fetched for it: locked as long as it is read, and not needed once it is deployed.
  std::vector<std::shared_ptr<const CacheEntry>> fetched = {};
};
Result<Package> make_package(const DeployOptions& options);
ModelOverrides overrides_of(const DeployOptions& options);

// What was fetched for it is not needed any more.
void drop_fetched(const Package& package);

}  // namespace lambent::cli
