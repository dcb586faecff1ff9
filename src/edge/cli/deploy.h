// lambent deploy: reads lambent.toml, zips the code, creates or updates the function.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/domain/function.h"
#include "core/http/client.h"
#include "edge/cli/console.h"
#include "edge/cli/fetch_cache.h"
#include "edge/cli/manifest.h"
#include "edge/cli/model_fetch.h"
#include "edge/cli/model_folder_fetch.h"
#include "edge/cli/model_import.h"
#include "edge/cli/model_weights.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct DeployOptions {
  // A folder with lambent.toml, such a file, a model (.onnx), where one is fetched from, or a
  // folder of its versions.
  std::string path = ".";
  // Override what the manifest says.
  std::optional<std::string> name;
  std::optional<std::string> code;   // relative to the working folder
  std::optional<std::string> image;  // an HTTP function of this image; there is no manifest then
  // Compiles a CUDA source into a bundle in a new folder; empty: there is no compiler.
  std::function<Result<void>(const std::string& source, const std::string& folder)> build_bundle =
      {};
  // Of a model: what runs it, and the shapes that kernels are made for.
  std::optional<ModelEngineChoice> engine = {};
  std::vector<std::string> shapes = {};
  std::optional<unsigned> batch = {};
  std::optional<unsigned> most_elements = {};  // of a batch; instead of the manifest's [batch]
  std::optional<std::string> precision = {};
  ImportModel import_model = {};  // empty: there is nothing here that reads models
  std::optional<uint64_t> model_version =
      {};                       // of a model: published under this number, and serves
  std::string sha256 = {};      // of a model that is fetched; empty: unsaid
  FetchModel fetch_model = {};  // empty: nothing here fetches models
  FetchModelFolder fetch_folder = {};
  std::string version_policy = {};  // instead of the manifest's; empty: unsaid
  http::Endpoint endpoint = {};     // of the worker, for telling where an HTTP function is
  bool dry_run = false;             // all is checked, and nothing changed
  bool waits = true;                // until it serves, also if packages are installed
};

// A function as its manifest describes it, with its code and kernel bundles packed, and the
// packages of its components, if it is a workflow.
struct Package {
  std::string file;  // of the manifest
  Manifest manifest;
  std::string zip;
  bool is_model = false;                     // it answers by the Open Inference Protocol
  std::optional<ModelWeights> weights = {};  // files that are too large for the zip
  std::vector<Package> components;
  // What was fetched for it: locked as long as it is read, and not needed once it is deployed.
  std::vector<std::shared_ptr<const CacheEntry>> fetched = {};
};
Result<Package> make_package(const DeployOptions& options);

// What was fetched for it is not needed any more.
void drop_fetched(const Package& package);
// The packages of a workflow's components come first; nothing is sent before all are packed.
int run_deploy(Transport& transport, Console& console, const DeployOptions& options);

struct Deployed {
  std::string action;       // "created", "updated" or "unchanged"
  std::string changes;      // JSON: a list of what differs, field by field
  std::string answer;       // the worker's FunctionConfiguration, JSON
  uint64_t bytes_sent = 0;  // in bodies
  uint64_t code_sent = 0;   // of them, of the package
  uint64_t revision = 0;
  bool under_way = false;  // packages are installed; it serves once they are there
};
// What a deployment waits for, in words.
using DeployProgress = std::function<void(const std::string& progress)>;

// Whether a FunctionConfiguration (JSON) is of a change that goes on, or failed. Pure.
struct DeploymentState {
  bool under_way = false;
  std::string reason = {};  // what is done
  std::optional<Error> failure = {};
};
DeploymentState read_deployment_state(const std::string& configuration);

struct DeployHow {
  bool dry_run = false;
  bool waits = true;
  DeployProgress tell = {};
};
// Creates the function, or changes code and settings of the one that has its name, in one call and
// one revision. What the worker has of the code is not sent.
Result<Deployed> deploy_function(Transport& transport, const FunctionSpec& spec,
                                 const std::string& zip, const DeployHow& how = {});
// What one package needs beside it, and the function itself.
Result<Deployed> deploy_package(Transport& transport, Console& console, const Package& package,
                                const DeployOptions& options);

}  // namespace lambent::cli
