#include "edge/cli/model_manifest.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/units.h"
#include "core/domain/command_line.h"
#include "core/domain/inference.h"
#include "core/domain/model_function.h"
#include "core/domain/openai_models.h"
#include "core/domain/volume.h"
#include "edge/cli/limits.h"
#include "edge/cli/manifest.h"
#include "edge/cli/manifest_keys.h"
#include "edge/cli/model_fetch.h"
#include "edge/cli/table_reader.h"
#include "edge/cli/version_policy.h"

namespace lambent::cli {
namespace {

constexpr std::string_view kFileKey = "model";
constexpr std::string_view kThreadsKey = "threads";
// Of a function of kind 'model': which requests are run together.
constexpr std::string_view kBatchKey = "batch";
constexpr std::string_view kEngineKey = "engine";
constexpr std::string_view kShapesKey = "shapes";
constexpr std::string_view kBatchSizeKey = "batch_size";
constexpr std::string_view kPrecisionKey = "precision";
constexpr std::string_view kProviderKey = "provider";
constexpr std::string_view kVersionPolicyKey = "version_policy";
constexpr std::string_view kSha256Key = "sha256";
constexpr int64_t kMostThreads = 1024;
constexpr Bytes kModelMemory = Bytes::gib(1);
constexpr std::string_view kProviderFlag = "--provider";

bool is_cuda(std::string_view provider) { return provider == "cuda" || provider == "auto"; }

std::string text_of(double number) {
  std::string text = std::to_string(number);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

Result<std::optional<BatchSection>> read_batches(const toml::table& root, const std::string& file) {
  const toml::node* node = root.get(kBatchKey);
  if (node == nullptr) return std::optional<BatchSection>();
  const toml::table* table = node->as_table();
  if (table == nullptr) {
    return wrong_key(root, kBatchKey, file, "batch is a table, such as [batch] with size = 16");
  }
  TableReader reader(*table, "batch.", file);
  const auto size = reader.number("size"), wait = reader.number("wait_ms"),
             slo = reader.number("slo_ms");
  std::vector<std::string> unknown;
  reader.warn_of_unknown(unknown);
  RETURN_IF_ERROR(reader.verdict());
  const auto wrong = [&](const std::string& why) {
    return wrong_key(root, kBatchKey, file, "[batch] " + why);
  };
  if (!unknown.empty()) return wrong("has size, wait_ms and slo_ms");
  if (!size || *size < 2 || *size > kMostBatchSize || *size != static_cast<int64_t>(*size)) {
    return wrong("has a size, a whole number from 2 to " + std::to_string(kMostBatchSize));
  }
  if (wait.value_or(0) < 0 || wait.value_or(0) > 60'000) {
    return wrong("has a wait_ms from 0 to 60000");
  }
  if (slo && (*slo <= 0 || *slo > 3'600'000)) return wrong("has a slo_ms above 0, at most 3600000");
  return std::optional(BatchSection{static_cast<unsigned>(*size), wait, slo});
}

// Which of onnxruntime's providers runs a model.
Result<void> read_provider(const toml::table& table, const std::string& file, ModelSection& model) {
  if (table.get(kProviderKey) == nullptr) return {};
  model.provider = table[kProviderKey].value_or(std::string());
  if (model.provider != "cpu" && !model.may_use_cuda()) {
    return wrong_key(table, kProviderKey, file, "provider is \"cpu\", \"cuda\" or \"auto\"");
  }
  if (model.engine == ModelEngineChoice::kKernels) {
    return wrong_key(table, kProviderKey, file,
                     "provider is for models that onnxruntime runs; this one has engine = "
                     "\"kernels\"");
  }
  if (model.may_use_cuda() && table.get("gpu") == nullptr) {
    return wrong_key(table, kProviderKey, file,
                     "provider = \"" + model.provider +
                         "\" needs a GPU: say how much of its memory under [gpu], such as memory = "
                         "\"2G\"");
  }
  return {};
}

// The keys that say which kernels are made of a model.
Result<void> read_kernels(const toml::table& table, const std::string& file, ModelSection& model) {
  if (table.get(kEngineKey) != nullptr) {
    const auto engine = model_engine_from(table[kEngineKey].value_or(std::string()));
    if (!engine) {
      return wrong_key(table, kEngineKey, file,
                       "engine is \"onnxruntime\", \"kernels\" or \"auto\"");
    }
    model.engine = *engine;
  }
  const bool has_kernels = model.engine != ModelEngineChoice::kOnnxruntime;
  RETURN_IF_ERROR(read_provider(table, file, model));
  for (const std::string_view key :
       {kShapesKey, kBatchSizeKey, kPrecisionKey, std::string_view("gpu")}) {
    if (table.get(key) == nullptr || has_kernels) continue;
    if (key == "gpu" && model.may_use_cuda()) continue;
    return wrong_key(table, key, file,
                     std::string(key) + " is for models with engine = \"kernels\" or \"auto\"" +
                         (key == "gpu" ? ", or with provider = \"cuda\" or \"auto\"" : "") +
                         "; this one runs on the host's processors");
  }
  ASSIGN_OR_RETURN(auto shapes, words_of(table, kShapesKey, file));
  if (shapes) model.shapes = std::move(*shapes);
  if (table.get(kBatchSizeKey) != nullptr) {
    const auto size = table[kBatchSizeKey].value<int64_t>();
    if (!table[kBatchSizeKey].is_integer() || *size < 1 ||
        std::cmp_greater(*size, kMostBatchSize)) {
      return wrong_key(table, kBatchSizeKey, file,
                       "batch_size is a whole number from 1 to " + std::to_string(kMostBatchSize));
    }
    if (table.get(kBatchKey) != nullptr) {
      return wrong_key(table, kBatchSizeKey, file,
                       "batch_size is for requests of one size; [batch] has those up to its own");
    }
    model.batch = static_cast<unsigned>(*size);
  }
  if (table.get(kPrecisionKey) != nullptr) {
    model.precision = table[kPrecisionKey].value_or(std::string());
    if (model.precision != kHalfPrecision) {
      return wrong_key(table, kPrecisionKey, file,
                       "precision is \"fp16\"; without it, it is that of the model's file");
    }
  }
  return {};
}

}  // namespace

std::span<const std::string_view> model_keys() {
  static constexpr std::string_view kKeys[] = {
      kFileKey,  kThreadsKey,   kEngineKey,        kShapesKey, kBatchSizeKey,
      kBatchKey, kPrecisionKey, kVersionPolicyKey, kSha256Key, kProviderKey};
  return kKeys;
}

Result<void> override_model(const ModelOverrides& overrides, toml::table& table) {
  const auto refused = [](const std::string& what) {
    return Error{ErrorCode::kInvalidArgument, what};
  };
  if (overrides.engine) table.insert_or_assign(kEngineKey, name_of(*overrides.engine));
  if (overrides.provider) table.insert_or_assign(kProviderKey, *overrides.provider);
  const std::string engine = table[kEngineKey].value_or(std::string());
  const bool has_kernels = engine == "kernels" || engine == "auto";
  const std::string provider = table[kProviderKey].value_or(std::string());
  if (overrides.engine && !has_kernels) {
    for (const std::string_view key : {kShapesKey, kBatchSizeKey, kPrecisionKey}) table.erase(key);
  }
  if (overrides.provider && engine == "kernels") {
    return refused("--provider is for models that onnxruntime runs; kernels serve this one");
  }
  const bool may_use_gpu = has_kernels || is_cuda(provider);
  if (overrides.gpu_memory) {
    if (!may_use_gpu) {
      return refused(
          "--gpu-memory is for a model on a GPU: add --provider cuda or --engine kernels");
    }
    const auto memory = parse_bytes(*overrides.gpu_memory);
    if (!memory.ok()) return memory.error().with_context("--gpu-memory");
    const auto gpu = table.insert("gpu", toml::table()).first;
    if (gpu->second.is_table()) {
      gpu->second.as_table()->insert_or_assign("memory", *overrides.gpu_memory);
    }
  }
  const bool chooses = overrides.engine || overrides.provider;
  if (chooses && !may_use_gpu) table.erase("gpu");
  if (overrides.provider && is_cuda(provider) && table.get("gpu") == nullptr) {
    return refused("--provider " + provider +
                   " needs a GPU: say how much of its memory, such as --gpu-memory 2G");
  }
  return {};
}

// The command of our program, of the keys model, threads and batch.
Result<void> read_model(const toml::table& table, const std::string& file, ModelSection& model,
                        FunctionSpec& spec) {
  static constexpr std::string_view kNotOfModels[] = {
      "graph", "component", "output",    "handler", "cpu",           "slo",
      "port",  "command",   "readiness", "runtime", kOpenaiModelsKey};
  for (const std::string_view key : kNotOfModels) {
    if (table.get(key) != nullptr) {
      return wrong_key(table, key, file, "a function of kind 'model' has no " + std::string(key));
    }
  }
  if (table.get("model") != nullptr && !table["model"].is_string()) {
    return wrong_key(table, "model", file, "model is the name of a file, such as \"model.onnx\"");
  }
  model.file = table["model"].value_or(model.file);
  if (table.get(kSha256Key) != nullptr) {
    model.sha256 = table[kSha256Key].value_or(std::string());
    const auto digest = validate_sha256(model.sha256);
    if (!digest.ok()) return wrong_key(table, kSha256Key, file, digest.error().message);
    if (!is_model_url(model.file)) {
      return wrong_key(table, kSha256Key, file, "sha256 is of a model that is fetched from a URL");
    }
  }
  if (table.get(kVersionPolicyKey) != nullptr) {
    const auto policy = parse_version_policy(table[kVersionPolicyKey].value_or(std::string()));
    if (!policy.ok()) return wrong_key(table, kVersionPolicyKey, file, policy.error().message);
    model.version_policy = table[kVersionPolicyKey].value_or(std::string());
  }
  RETURN_IF_ERROR(read_kernels(table, file, model));
  std::vector<std::string> command = {std::string(kModelServer), model.file};
  if (table.get("threads") != nullptr) {
    const auto threads = table["threads"].value<int64_t>();
    if (!table["threads"].is_integer() || *threads < 1 || *threads > kMostThreads) {
      return wrong_key(table, "threads", file,
                       "threads is a whole number from 1 to " + std::to_string(kMostThreads));
    }
    command.insert(command.end(), {"--threads", std::to_string(*threads)});
  }
  if (model.may_use_cuda()) {
    command.insert(command.end(), {std::string(kProviderFlag), model.provider});
  }
  ASSIGN_OR_RETURN(model.batches, read_batches(table, file));
  if (model.batches) {
    const std::vector<std::string> flags = flags_of(*model.batches);
    command.insert(command.end(), flags.begin(), flags.end());
  }
  spec.kind = FunctionKind::kHttp;
  spec.handler = command_text(command);
  spec.runtime_name = "python3";
  spec.runtime = Runtime::kPython;
  model.says_memory = table.get("memory") != nullptr;
  if (!model.says_memory) spec.memory = kModelMemory;
  if (table.get("concurrency") == nullptr) spec.http.concurrency = limits::kModelConcurrency;
  return {};
}

std::vector<std::string> flags_of(const BatchSection& batches) {
  std::vector<std::string> flags = {"--batch", text_of(batches.size)};
  if (batches.wait_ms) flags.insert(flags.end(), {"--batch-wait-ms", text_of(*batches.wait_ms)});
  if (batches.slo_ms) flags.insert(flags.end(), {"--batch-slo-ms", text_of(*batches.slo_ms)});
  return flags;
}

std::optional<ModelEngineChoice> model_engine_from(std::string_view word) {
  for (const auto engine :
       {ModelEngineChoice::kOnnxruntime, ModelEngineChoice::kKernels, ModelEngineChoice::kAuto}) {
    if (name_of(engine) == word) return engine;
  }
  return std::nullopt;
}

std::string_view name_of(ModelEngineChoice engine) {
  switch (engine) {
    case ModelEngineChoice::kOnnxruntime:
      return "onnxruntime";
    case ModelEngineChoice::kKernels:
      return "kernels";
    case ModelEngineChoice::kAuto:
      return "auto";
  }
  return "";
}

void run_on_processors(Manifest& manifest) {
  ModelSection& model = *manifest.model;
  model.engine = ModelEngineChoice::kOnnxruntime;
  model.provider = "cpu";
  manifest.spec.gpu = {};
  if (manifest.python &&
      manifest.python->packages.requirements == std::vector<std::string>{kCudaPackage}) {
    manifest.python->packages.requirements = {kHostPackage};
  }
  auto command = command_words(manifest.spec.handler);
  if (!command.ok()) return;
  const auto flag = std::ranges::find(*command, kProviderFlag);
  if (flag == command->end()) return;
  command->erase(flag, flag + 2);
  manifest.spec.handler = command_text(*command);
}

}  // namespace lambent::cli
