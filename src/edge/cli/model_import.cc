#include "edge/cli/model_import.h"

#include <utility>

#include "core/base/fd.h"

namespace lambent::cli {
namespace {

constexpr size_t kMostManifest = 1 << 20;

// What the author of the model said of the function holds for the kernels too.
void take_settings(const FunctionSpec& from, FunctionSpec& spec) {
  spec.name = from.name;
  spec.description = from.description;
  spec.tags = from.tags;
  spec.timeout = from.timeout;
  spec.gpu = from.gpu;
  spec.weight = from.weight;
  spec.max_concurrency = from.max_concurrency;
  spec.max_queue_time_s = from.max_queue_time_s;
  spec.min_instances = from.min_instances;
  spec.keep_alive_s = from.keep_alive_s;
  spec.slo_ms = from.slo_ms;
}

}  // namespace

Result<std::optional<ImportedModel>> import_model(Manifest& manifest, const std::string& folder,
                                                  const ImportModel& import) {
  const ModelSection& model = *manifest.model;
  if (model.engine == ModelEngineChoice::kOnnxruntime) return std::optional<ImportedModel>();
  if (!import) {
    return Error{ErrorCode::kUnimplemented, "engine: there is nothing here that reads models"};
  }
  ASSIGN_OR_RETURN(StagingFolder staging, StagingFolder::make());
  const std::string package = staging.path() + "/package";
  auto outcome = import({.model = join_path(folder, model.file),
                         .folder = package,
                         .shapes = model.shapes,
                         .batch = model.batch,
                         .batches = model.batches,
                         .precision = model.precision});
  const bool is_lacking = !outcome.ok() && outcome.error().code == ErrorCode::kFailedPrecondition;
  if (is_lacking && model.engine == ModelEngineChoice::kAuto) {
    outcome = ModelImportOutcome{false, outcome.error().message};
  }
  if (!outcome.ok()) return outcome.error();
  if (!outcome->is_covered) {
    if (model.engine == ModelEngineChoice::kKernels) {
      return Error{ErrorCode::kFailedPrecondition,
                   outcome->said + " (engine = \"onnxruntime\" runs it on the host's processors)"};
    }
    // What was said of a GPU was for kernels.
    if (!model.may_use_cuda()) manifest.spec.gpu = {};
    manifest.warnings.push_back("onnxruntime serves it: " + outcome->said);
    return std::optional<ImportedModel>();
  }
  const std::string file = package + "/lambent.toml";
  ASSIGN_OR_RETURN(const std::string text, read_file(file, kMostManifest));
  ASSIGN_OR_RETURN(Manifest kernels, parse_manifest(text, file));
  take_settings(manifest.spec, kernels.spec);
  kernels.warnings = manifest.warnings;
  return std::optional<ImportedModel>(ImportedModel{std::move(staging), file, std::move(kernels)});
}

}  // namespace lambent::cli
