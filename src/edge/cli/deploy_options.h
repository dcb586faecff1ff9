// DeployOptions: what `lambent deploy` was told, and who does for it what is not the command's own
// work. A value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/http/client.h"
#include "edge/cli/manifest.h"
#include "edge/cli/model_fetch.h"
#include "edge/cli/model_folder_fetch.h"
#include "edge/cli/model_import.h"

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
  std::optional<std::string> provider = {};    // of onnxruntime: "cpu", "cuda" or "auto"
  std::optional<std::string> gpu_memory = {};  // of a model, such as "2G"
  // Whether the worker has one: asked where a model leaves it open; empty: it has.
  std::function<bool()> has_gpu = {};
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

}  // namespace lambent::cli
