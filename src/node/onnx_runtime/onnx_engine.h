// OnnxEngine: runs an ONNX model by onnxruntime, a library that is loaded when a model is
// (Microsoft's, of PyPI's package): on the host's processors, or on a GPU by its CUDA provider. One
// thread at a time.
#pragma once

#include <memory>
#include <string>

#include "core/domain/inference.h"
#include "node/onnx_runtime/provider.h"

namespace lambent::onnx {

struct OnnxOptions {
  std::string library;  // libonnxruntime.so.*
  std::string model;    // the file; what it refers to lies beside it
  int threads = 1;      // that share one run; at least 1
  Provider provider = Provider::kCpu;
  std::string no_gpu;  // why CUDA's provider has no GPU to run on; empty: it has one
};

// What loading a model makes first, which is the same for all and most of the work for a small one.
// While it lives, models load without that, here and in forks of this process.
class LoadedLibrary {
 public:
  virtual ~LoadedLibrary() = default;
};
// NOT_FOUND if the library is not there. It leaves a thread behind unless the process has the
// variable ORT_DISABLE_TELEMETRY.
Result<std::unique_ptr<LoadedLibrary>> load_onnx_library(const std::string& library);

struct LoadedModel {
  std::unique_ptr<ModelEngine> engine;
  ProviderChoice provider;
};
// NOT_FOUND if the library or the model is not there, INVALID_ARGUMENT if the library takes no such
// model or an input or output of it is no tensor; the errors of choose_provider. Blocks, for
// seconds if the model is large.
Result<LoadedModel> load_onnx_model(const OnnxOptions& options);

}  // namespace lambent::onnx
