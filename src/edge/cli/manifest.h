// Manifest: what lambent.toml says about a function. A value; read by `lambent deploy`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/function.h"
#include "decide/pipeline/definition.h"
#include "edge/cli/model_manifest.h"
#include "edge/cli/python_section.h"

namespace lambent::cli {

struct Manifest {
  FunctionSpec spec;                 // without tenant, id, revision and code
  std::string code = ".";            // a folder or a .zip, relative to the manifest
  std::vector<std::string> bundles;  // kernel bundles to pack along, relative to the manifest
  // CUDA sources of kernels to compile into bundles of their names, relative to the manifest.
  std::vector<std::string> sources;
  // Of a workflow that is described by [[component]] tables: its graph as JSON, in which components
  // with a package may lack their function; those packages' folders by component's number, relative
  // to the manifest.
  std::string workflow;
  std::map<size_t, std::string> packages;
  // Of a pipeline: what its [slo] table says, which then holds in place of its pipeline.json.
  pipeline::Slo slo;
  std::optional<ModelSection> model;    // of kind 'model'
  std::optional<PythonSection> python;  // packages of an index that its Python has
  // Keys that we do not know, with the one that was perhaps meant; shown, not fatal.
  std::vector<std::string> warnings;
};

// What it is called in a folder, and the most that is read of it.
constexpr const char* kManifestName = "lambent.toml";
constexpr size_t kMostManifestText = 1 << 20;

// INVALID_ARGUMENT names file, line and column, or the key or option, of what is wrong. `overrides`
// hold where the function is a model.
Result<Manifest> parse_manifest(std::string_view text, const std::string& file,
                                const ModelOverrides& overrides = {});

}  // namespace lambent::cli
