// Models that are served by kernels (engine = "kernels"): an ONNX file becomes the package of a
// kernel function, by a program of its own that reads the foreign bytes. Used by `lambent deploy`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "edge/cli/manifest.h"
#include "edge/cli/staging.h"

namespace lambent::cli {

struct ModelImportRequest {
  std::string model;                         // the file
  std::string folder;                        // where the package is written; it is not there yet
  std::vector<std::string> shapes = {};      // of inputs whose dimensions are open: "x=1,3,224,224"
  unsigned batch = 1;                        // of the first dimension, where only that is open
  std::optional<BatchSection> batches = {};  // instead: several batch sizes, put together
  std::string precision = {};                // of 32-bit floating point: "fp16"; empty: as it is
};

struct ModelImportOutcome {
  bool is_covered = false;  // there are kernels for all of it, and the package is written
  std::string said;         // what it became, or what has no kernels, with its place
};

// INVALID_ARGUMENT: the file is no model, or its shapes do not fit; FAILED_PRECONDITION: what reads
// models is not installed.
using ImportModel = std::function<Result<ModelImportOutcome>(const ModelImportRequest&)>;

// The package of a model that kernels serve.
struct ImportedModel {
  StagingFolder staging;
  std::string file;  // the manifest of the package
  Manifest manifest;
};
// Of a manifest of kind 'model' in `folder`. Nothing if its engine is onnxruntime, or "auto" and
// something in the model has no kernels or nothing here makes them, which becomes a warning of
// `manifest`.
// FAILED_PRECONDITION, with the place in the model, if the engine is "kernels" and something has
// none.
Result<std::optional<ImportedModel>> import_model(Manifest& manifest, const std::string& folder,
                                                  const ImportModel& import);

}  // namespace lambent::cli
