// The part of lambent.toml that describes a model: which file it is, what runs it, which requests
// run together. Values and pure functions; read by parse_manifest, used by `lambent deploy`.
#pragma once

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/function.h"

namespace lambent::cli {

struct Manifest;

// A function of this kind is an HTTP function whose program is ours.
constexpr std::string_view kModelKind = "model";
// Unless [python] names others: what runs a model.
constexpr const char* kHostPackage = "onnxruntime";
constexpr const char* kCudaPackage = "onnxruntime-gpu[cuda,cudnn]";

// What runs a model.
enum class ModelEngineChoice : uint8_t {
  kOnnxruntime,  // onnxruntime, on the host's processors
  kKernels,      // a graph of kernels, on a GPU
  kAuto,         // kernels, if there are some for all of it, else onnxruntime
};
// "onnxruntime", "kernels", "auto"; nothing for other words.
std::optional<ModelEngineChoice> model_engine_from(std::string_view word);
std::string_view name_of(ModelEngineChoice engine);

// What the command line says of a model in place of its manifest.
struct ModelOverrides {
  std::optional<ModelEngineChoice> engine = {};
  std::optional<std::string> provider = {};    // "cpu", "cuda" or "auto"
  std::optional<std::string> gpu_memory = {};  // "2G"
};

// Of a model whose weights of 32-bit floating point are kept in 16 bits.
constexpr std::string_view kHalfPrecision = "fp16";

// The table [batch] of a model: how requests to it are put together.
struct BatchSection {
  unsigned size = 1;                   // elements of the first dimension in one run, at most
  std::optional<double> wait_ms = {};  // unless said 0
  std::optional<double> slo_ms = {};   // unless said none
};

// What a manifest of kind 'model' says beside its function.
struct ModelSection {
  std::string file = "model.onnx";  // relative to the manifest, or a URL
  std::string sha256;               // of what is at the URL; empty: unsaid
  ModelEngineChoice engine = ModelEngineChoice::kOnnxruntime;
  std::vector<std::string> shapes;  // for kernels: of inputs, such as "x=1,3,224,224"
  unsigned batch = 1;               // for kernels: the first dimension of inputs, where it is open
  std::optional<BatchSection> batches;  // kernels are made for several batch sizes up to its own
  std::string precision;                // for kernels: "fp16"; empty: that of the file
  std::string provider = "cpu";         // of onnxruntime: "cpu", "cuda" or "auto"
  bool may_use_cuda() const { return provider == "cuda" || provider == "auto"; }
  bool says_memory = false;    // else it is as large as the model needs
  std::string version_policy;  // which versions are served (VersionPolicy); empty: unsaid
};

// The keys of a manifest that say something only about a model.
std::span<const std::string_view> model_keys();

// Puts into `table`, a manifest, what the command line says of its model.
Result<void> override_model(const ModelOverrides& overrides, toml::table& table);

// Makes of a manifest of a model the HTTP function that serves it. INVALID_ARGUMENT names file and
// line.
Result<void> read_model(const toml::table& table, const std::string& file, ModelSection& model,
                        FunctionSpec& spec);

// As lambent-model-server and the importer of models have them: --batch, --batch-wait-ms,
// --batch-slo-ms.
std::vector<std::string> flags_of(const BatchSection& batches);

// Of a model: onnxruntime runs it without a GPU, whatever was said of one.
void run_on_processors(Manifest& manifest);

}  // namespace lambent::cli
