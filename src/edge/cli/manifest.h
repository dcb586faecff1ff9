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
#include "edge/cli/python_section.h"

namespace lambent::cli {

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

// As lambent-model-server and the importer of models have them: --batch, --batch-wait-ms,
// --batch-slo-ms.
std::vector<std::string> flags_of(const BatchSection& batches);

// INVALID_ARGUMENT names file, line and column, or the key or option, of what is wrong. `overrides`
// hold where the function is a model.
Result<Manifest> parse_manifest(std::string_view text, const std::string& file,
                                const ModelOverrides& overrides = {});

// Of a model: onnxruntime runs it without a GPU, whatever was said of one.
void run_on_processors(Manifest& manifest);

}  // namespace lambent::cli
