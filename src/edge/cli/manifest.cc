#include "edge/cli/manifest.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "core/base/check.h"
#include "core/domain/command_line.h"
#include "core/domain/function_fields.h"
#include "core/domain/function_words.h"
#include "core/domain/image_function.h"
#include "core/domain/inference.h"
#include "core/domain/model_function.h"
#include "core/domain/openai_models.h"
#include "core/domain/python_runtime.h"
#include "core/domain/volume.h"
#include "decide/pipeline/limits.h"
#include "edge/cli/limits.h"
#include "edge/cli/model_fetch.h"
#include "edge/cli/staging.h"
#include "edge/cli/table_reader.h"
#include "edge/cli/version_policy.h"
#include "edge/cli/workflow_manifest.h"

namespace lambent::cli {
namespace {

// Of a function of kind 'model': which requests are run together.
constexpr std::string_view kBatchKey = "batch";
constexpr std::string_view kEngineKey = "engine";
constexpr std::string_view kShapesKey = "shapes";
constexpr std::string_view kBatchSizeKey = "batch_size";
constexpr std::string_view kPrecisionKey = "precision";
constexpr std::string_view kProviderKey = "provider";
constexpr std::string_view kVersionPolicyKey = "version_policy";
constexpr std::string_view kSha256Key = "sha256";
// The keys that are no fields of the function.
constexpr std::string_view kOtherKeys[] = {"graph",
                                           "code",
                                           "bundles",
                                           "sources",
                                           "component",
                                           "output",
                                           "slo",
                                           "command",
                                           "python",
                                           "model",
                                           "threads",
                                           "image",
                                           "entry_point",
                                           "working_directory",
                                           kEngineKey,
                                           kShapesKey,
                                           kBatchSizeKey,
                                           kOpenaiModelsKey,
                                           kBatchKey,
                                           kPrecisionKey,
                                           kVersionPolicyKey,
                                           kSha256Key,
                                           kProviderKey};

// Reads the fields of a function. A field's key names its table.
// Of tables that are read by others.
constexpr std::pair<std::string_view, const char*> kKeysOfOtherTables[] = {
    {"requirements", "[python]"},  {"pyproject", "[python]"}, {"lock", "[python]"},
    {"preload", "[python]"},       {"cron", "[[schedules]]"}, {"rate", "[[schedules]]"},
    {"timezone", "[[schedules]]"}, {"volume", "[[mounts]]"},  {"volumes", "[[mounts]]"},
    {"at", "[[mounts]]"},          {"wait_ms", "[batch]"}};

// Variables that the worker sets in every sandbox, whatever the function says of them.
bool is_of_the_worker(std::string_view variable) {
  constexpr std::string_view kNames[] = {
      "_HANDLER",          "_X_AMZN_TRACE_ID", "AWS_REGION",         "AWS_DEFAULT_REGION",
      "AWS_EXECUTION_ENV", "LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR", "LAMBENT_DEVICE"};
  return variable.starts_with("AWS_LAMBDA_") ||
         std::find(std::begin(kNames), std::end(kNames), variable) != std::end(kNames);
}

class FieldReader {
 public:
  FieldReader(const toml::table& root, const std::string& file)
      : file_(file), root_(root, "", file) {
    root_.know(kOtherKeys);
  }

  template <typename Value>
  void operator()(const FunctionField& field, Value& value) {
    if (field.key.empty()) return;
    if constexpr (requires(TableReader & table) { table.read(field.key, value); }) {
      const size_t dot = field.key.find('.');
      if (dot == std::string_view::npos) return root_.read(field.key, value);
      table(field.key.substr(0, dot)).read(field.key.substr(dot + 1), value);
    } else {
      CHECK(false, "a field of this type has no form in a manifest");
    }
  }
  // A path, or an event as a table.
  void operator()(const FunctionField& field, std::string& value) {
    if (field.key == kWarmUpKey) return root_.read_event(field.key, value);
    if (field.key == kCorsKey) return table("url").read_event("cors", value);
    operator()<std::string>(field, value);
  }
  // Kept as text: an unknown kind is reported after everything else that is wrong.
  void operator()(const FunctionField& field, FunctionKind& value) {
    kind_ = name_of(value);
    root_.read(field.key, kind_);
  }
  // A function whose manifest has the table also runs without a GPU.
  void operator()(const FunctionField& field, std::optional<CpuVariant>& variant) {
    CpuVariant read;
    visit_cpu_variant(*this, read);
    if (root_.table(field.key) != nullptr) variant = std::move(read);
  }

  TableReader& root() { return root_; }
  const std::string& kind() const { return kind_; }
  void warn_of_unknown(std::vector<std::string>& warnings) {
    for (const auto& [name, table] : tables_) {
      for (const auto key : table.known()) root_.know_elsewhere(key, "[" + std::string(name) + "]");
    }
    for (const auto& [key, table] : kKeysOfOtherTables) root_.know_elsewhere(key, table);
    root_.warn_of_unknown(warnings);
    for (const auto& [name, table] : tables_) table.warn_of_unknown(warnings);
  }
  // What is wrong in the root comes first.
  Result<void> verdict() const {
    RETURN_IF_ERROR(root_.verdict());
    for (const auto& [name, table] : tables_) RETURN_IF_ERROR(table.verdict());
    return {};
  }

 private:
  // A table in the root; a missing one reads as empty.
  TableReader& table(std::string_view name) {
    for (auto& [known, table] : tables_) {
      if (known == name) return table;
    }
    static const toml::table kEmpty;
    const toml::table* found = root_.table(name);
    tables_.emplace_back(
        name, TableReader(found == nullptr ? kEmpty : *found, std::string(name) + ".", file_));
    return tables_.back().second;
  }

  const std::string& file_;
  TableReader root_;
  std::deque<std::pair<std::string_view, TableReader>> tables_;  // in the order of the fields
  std::string kind_;
};

// As pipeline.json has it.
Result<void> read_slo(const toml::table& table, const std::string& file, Manifest& manifest) {
  TableReader reader(table, "slo.", file);
  const auto ms = reader.number("ms"), scale = reader.number("scale");
  reader.warn_of_unknown(manifest.warnings);
  RETURN_IF_ERROR(reader.verdict());
  const std::string place = file + " line " + std::to_string(table.source().begin.line) + ": ";
  if (ms.has_value() == scale.has_value()) {
    return Error{ErrorCode::kInvalidArgument,
                 place +
                     "[slo] has either ms, the time from a request to its answer, or scale, "
                     "which multiplies the time of the function by itself"};
  }
  const double most = ms ? to_seconds(pipeline::limits::kTime) * 1e3 : pipeline::limits::kSloScale;
  const double value = ms ? *ms : *scale;
  if (!(value > 0) || value > most) {
    return Error{ErrorCode::kInvalidArgument, place + (ms ? "slo.ms" : "slo.scale") +
                                                  " is more than 0 and at most " +
                                                  std::to_string(static_cast<int64_t>(most))};
  }
  if (ms) {
    manifest.slo = from_seconds(value / 1e3);
  } else {
    manifest.slo = pipeline::SloScale{value};
  }
  return {};
}

Result<Runtime> runtime_of(const std::string& name, const std::string& file) {
  if (name == "provided" || name.starts_with("provided.")) return Runtime::kProvided;
  if (name == "python" || is_python_runtime(name)) return Runtime::kPython;
  return Error{ErrorCode::kInvalidArgument,
               file + ": runtime is '" + name +
                   "'; it can be 'provided.al2023' (an executable named bootstrap), 'python3' or "
                   "'python3.N', with N from 3 to " +
                   std::to_string(kNewestPython)};
}

std::string graph_file_of(FunctionKind kind) {
  switch (kind) {
    case FunctionKind::kHandler:
    case FunctionKind::kHttp:
      break;
    case FunctionKind::kKernel:
      return "graph.json";
    case FunctionKind::kWorkflow:
      return "workflow.json";
    case FunctionKind::kPipeline:
      return "pipeline.json";
  }
  return "";
}

Error wrong_key(const toml::table& table, std::string_view key, const std::string& file,
                const std::string& message) {
  const toml::node* node = table.get(key);
  const uint32_t line = node == nullptr ? 0 : node->source().begin.line;
  const std::string place = line == 0 ? "" : " line " + std::to_string(line);
  return Error{ErrorCode::kInvalidArgument, file + place + ": " + message};
}

// Keys that say something only about functions of other kinds.
Result<void> check_kind_keys(const toml::table& table, FunctionKind kind, const std::string& file) {
  for (const std::string_view key :
       {std::string_view("model"), std::string_view("threads"), kEngineKey, kShapesKey,
        kBatchSizeKey, kBatchKey, kPrecisionKey, kVersionPolicyKey, kSha256Key, kProviderKey}) {
    if (const toml::node* node = table.get(key)) {
      return Error{ErrorCode::kInvalidArgument,
                   file + " line " + std::to_string(node->source().begin.line) + ": " +
                       std::string(key) + " is for functions of kind 'model'"};
    }
  }
  const bool has_image = table.get("image") != nullptr;
  for (const char* key : {"entry_point", "working_directory"}) {
    if (!has_image && table.get(key) != nullptr) {
      return wrong_key(table, key, file, std::string(key) + " is for functions with an image");
    }
  }
  static constexpr std::string_view kNotOfHandlers[] = {
      "graph", "component", "output", "slo", "port", "readiness", kOpenaiModelsKey, "command"};
  static constexpr std::string_view kNotOfKernels[] = {
      "runtime", "handler", "environment", "cpu",     "component",
      "output",  "slo",     "port",        "command", "readiness",
      "python",  "url",     "concurrency", "network", kOpenaiModelsKey};
  static constexpr std::string_view kNotOfWorkflows[] = {
      "runtime", "handler", "environment", "gpu",     "cpu",           "bundles",
      "sources", "slo",     "port",        "command", "readiness",     "python",
      "mounts",  "url",     "concurrency", "network", kOpenaiModelsKey};
  static constexpr std::string_view kNotOfPipelines[] = {
      "handler", "cpu",       "component", "output",      "port",
      "command", "readiness", "url",       "concurrency", kOpenaiModelsKey};
  static constexpr std::string_view kNotOfHttp[] = {"graph", "component", "output",      "handler",
                                                    "cpu",   "slo",       "asynchronous"};
  std::span<const std::string_view> foreign = kNotOfHandlers;
  if (kind == FunctionKind::kKernel) foreign = kNotOfKernels;
  if (kind == FunctionKind::kWorkflow) foreign = kNotOfWorkflows;
  if (kind == FunctionKind::kPipeline) foreign = kNotOfPipelines;
  if (kind == FunctionKind::kHttp) foreign = kNotOfHttp;
  // Its command is the image's.
  if (kind == FunctionKind::kHandler && has_image) foreign = foreign.first(foreign.size() - 1);
  for (const std::string_view key : foreign) {
    if (const toml::node* node = table.get(key)) {
      return Error{ErrorCode::kInvalidArgument,
                   file + " line " + std::to_string(node->source().begin.line) +
                       ": a function of kind '" + std::string(name_of(kind)) + "' has no " +
                       std::string(key) + (key == "slo" ? "; its SLO is slo_ms = 200" : "")};
    }
  }
  return {};
}

// Its graph is a file of its code, or follows from tables here.
Result<void> read_workflow(const toml::table& table, const std::string& file, Manifest& manifest) {
  ASSIGN_OR_RETURN(WorkflowTables tables, read_workflow_tables(table, file));
  for (const char* key : {"graph", "code"}) {
    if (!tables.json.empty() && table.get(key) != nullptr) {
      return Error{ErrorCode::kInvalidArgument,
                   file + " line " + std::to_string(table.get(key)->source().begin.line) + ": " +
                       key + " is for workflows without [[component]] tables"};
    }
  }
  if (tables.json.empty() && table.get("output") != nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 file + " line " + std::to_string(table.get("output")->source().begin.line) +
                     ": output belongs to [[component]] tables; there are none"};
  }
  manifest.workflow = std::move(tables.json);
  manifest.packages = std::move(tables.packages);
  return {};
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

std::string text_of(double number) {
  std::string text = std::to_string(number);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// A list of texts; nothing if the key is not there.
Result<std::optional<std::vector<std::string>>> words_of(const toml::table& table,
                                                         std::string_view key,
                                                         const std::string& file) {
  std::optional<std::vector<std::string>> words;
  const toml::node* node = table.get(key);
  if (node == nullptr) return words;
  const toml::array* list = node->as_array();
  const auto is_text = [](const toml::node& word) { return word.is_string(); };
  if (list == nullptr || !std::all_of(list->begin(), list->end(), is_text)) {
    return wrong_key(table, key, file,
                     std::string(key) + " is a list of words, such as [\"python3\", \"app.py\"]");
  }
  words.emplace();
  for (const toml::node& word : *list) words->push_back(word.as_string()->get());
  return words;
}

// The models that an HTTP function serves by OpenAI's API.
Result<void> read_openai_models(const toml::table& table, const std::string& file,
                                FunctionSpec& spec) {
  const toml::node* node = table.get(kOpenaiModelsKey);
  if (node == nullptr) return {};
  const toml::array* list = node->as_array();
  const auto is_text = [](const toml::node& name) { return name.is_string(); };
  if (list == nullptr || !std::all_of(list->begin(), list->end(), is_text)) {
    return wrong_key(table, kOpenaiModelsKey, file,
                     "openai_models is a list of names, such as [\"tiny\"]");
  }
  std::vector<std::string> names;
  for (const toml::node& name : *list) names.push_back(name.as_string()->get());
  auto text = openai_models_text(names);
  if (!text.ok()) return wrong_key(table, kOpenaiModelsKey, file, text.error().message);
  if (!text->empty()) spec.tags[std::string(kOpenaiModelsTag)] = *std::move(text);
  return {};
}

// A function of kind 'model' is an HTTP function whose program is ours.
constexpr std::string_view kModelKind = "model";
constexpr int64_t kMostThreads = 1024;
constexpr Bytes kModelMemory = Bytes::gib(1);
constexpr std::string_view kProviderFlag = "--provider";
// Unless [python] names others.
constexpr const char* kHostPackage = "onnxruntime";
constexpr const char* kCudaPackage = "onnxruntime-gpu[cuda,cudnn]";

bool is_cuda(std::string_view provider) { return provider == "cuda" || provider == "auto"; }

// A model as the command line has it.
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
  if (model.may_use_cuda())
    command.insert(command.end(), {std::string(kProviderFlag), model.provider});
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

// Of a function of an image, which is its code.
Result<void> read_image(const toml::table& table, const std::string& file, FunctionSpec& spec) {
  for (const std::string_view key :
       {"runtime", "handler", "code", "bundles", "sources", "python", "cpu"}) {
    if (table.get(key) != nullptr) {
      return wrong_key(table, key, file, "a function of an image has no " + std::string(key));
    }
  }
  if (spec.kind != FunctionKind::kHandler && spec.kind != FunctionKind::kHttp) {
    return wrong_key(table, "image", file,
                     "a function of kind '" + std::string(name_of(spec.kind)) + "' has no image");
  }
  if (!table["image"].is_string()) {
    return wrong_key(table, "image", file, "image is the name of one, in quotes");
  }
  ImageCommand command;
  auto image = parse_image_reference(table["image"].ref<std::string>());
  if (!image.ok()) return wrong_key(table, "image", file, image.error().message);
  if (image->is_local() && !image->name.starts_with('/')) {
    const std::string path = join_path(folder_of(file), image->name);
    image->name = std::filesystem::absolute(path).lexically_normal().string();
    if (image->name.ends_with('/')) image->name.pop_back();
  }
  command.image = std::move(*image);
  ASSIGN_OR_RETURN(command.entry_point, words_of(table, "entry_point", file));
  ASSIGN_OR_RETURN(command.command, words_of(table, "command", file));
  if (command.command && command.command->empty()) command.command.reset();
  command.working_directory = table["working_directory"].value_or(std::string());
  spec.runtime_name = kImageRuntime;
  spec.runtime = Runtime::kProvided;
  spec.handler = text_of(command);
  const auto good = parse_image_command(spec.handler);
  return good.ok() ? Result<void>{}
                   : wrong_key(table, "working_directory", file, good.error().message);
}

// Its words, each a text of its own.
Result<void> read_command(const toml::table& table, const std::string& file, FunctionSpec& spec) {
  const toml::node* node = table.get("command");
  const toml::array* words = node == nullptr ? nullptr : node->as_array();
  const auto is_text = [](const toml::node& word) { return word.is_string(); };
  if (words == nullptr || words->empty() || !std::all_of(words->begin(), words->end(), is_text)) {
    const std::string place =
        node == nullptr ? "" : " line " + std::to_string(node->source().begin.line);
    return Error{ErrorCode::kInvalidArgument,
                 file + place +
                     ": a function of kind 'http' has the command that starts its program, such "
                     "as command = [\"python3\", \"server.py\"]"};
  }
  std::vector<std::string> command;
  for (const toml::node& word : *words) command.push_back(word.as_string()->get());
  spec.handler = command_text(command);
  return {};
}

Result<void> read_python(const toml::table& root, const std::string& file, Manifest& manifest) {
  const toml::node* node = root.get("python");
  if (node == nullptr) return {};
  const std::string place = file + " line " + std::to_string(node->source().begin.line) + ": ";
  if (!node->is_table()) {
    return Error{ErrorCode::kInvalidArgument, place + "python is a table, [python]"};
  }
  if (manifest.spec.runtime != Runtime::kPython) {
    return Error{ErrorCode::kInvalidArgument, place +
                                                  "[python] is for functions with runtime = "
                                                  "\"python3\", and this one has runtime = \"" +
                                                  manifest.spec.runtime_name + "\""};
  }
  ASSIGN_OR_RETURN(manifest.python,
                   read_python_section(*node->as_table(), file, manifest.warnings));
  return {};
}

}  // namespace

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

Result<Manifest> parse_manifest(std::string_view text, const std::string& file,
                                const ModelOverrides& overrides) {
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const auto& where = parsed.error().source().begin;
    return Error{ErrorCode::kInvalidArgument, file + " line " + std::to_string(where.line) +
                                                  ", column " + std::to_string(where.column) +
                                                  ": " + std::string(parsed.error().description())};
  }
  if (parsed.table()["kind"].value_or(std::string()) == kModelKind) {
    RETURN_IF_ERROR(override_model(overrides, parsed.table()));
  }
  Manifest manifest;
  FunctionSpec& spec = manifest.spec;
  FieldReader fields(parsed.table(), file);
  visit_fields(fields, spec);
  TableReader& reader = fields.root();
  reader.read("code", manifest.code);
  reader.read("bundles", manifest.bundles);
  reader.read("sources", manifest.sources);
  const toml::table* slo = reader.table("slo");
  RETURN_IF_ERROR(fields.verdict());
  fields.warn_of_unknown(manifest.warnings);
  for (const auto& [variable, value] : spec.environment) {
    const bool of_image = parsed.table().get("image") != nullptr;  // which has words of its own
    if (of_image || !is_of_the_worker(variable)) continue;
    manifest.warnings.push_back(file + ": environment." + variable +
                                " has no effect: the worker sets this variable itself");
  }
  if (fields.kind() == kModelKind) {
    RETURN_IF_ERROR(read_model(parsed.table(), file, manifest.model.emplace(), spec));
    RETURN_IF_ERROR(read_python(parsed.table(), file, manifest));
    if (!manifest.python) manifest.python.emplace();
    PythonSection& python = *manifest.python;
    if (!names_requirements(python)) {
      python.packages.requirements = {manifest.model->may_use_cuda() ? kCudaPackage : kHostPackage};
    }
    return manifest;
  }
  const auto known = function_kind_from(fields.kind());
  if (!known) {
    return Error{ErrorCode::kInvalidArgument, file + ": kind is '" + fields.kind() +
                                                  "'; it can be 'model', " +
                                                  list_of_words<FunctionKind>("'")};
  }
  spec.kind = *known;
  RETURN_IF_ERROR(check_kind_keys(parsed.table(), spec.kind, file));
  RETURN_IF_ERROR(read_openai_models(parsed.table(), file, spec));
  if (slo != nullptr) RETURN_IF_ERROR(read_slo(*slo, file, manifest));
  if (spec.kind == FunctionKind::kWorkflow) {
    RETURN_IF_ERROR(read_workflow(parsed.table(), file, manifest));
  }
  if (parsed.table().get("image") != nullptr) {
    RETURN_IF_ERROR(read_image(parsed.table(), file, spec));
    return manifest;
  }
  if (spec.kind == FunctionKind::kHttp) {
    RETURN_IF_ERROR(read_command(parsed.table(), file, spec));
  } else if (spec.kind != FunctionKind::kHandler) {
    spec.handler = graph_file_of(spec.kind);
    reader.read("graph", spec.handler);
    RETURN_IF_ERROR(reader.verdict());
  }
  const bool runs_python =
      spec.kind == FunctionKind::kPipeline || parsed.table().contains("python");
  if (runs_python && !parsed.table().contains("runtime")) spec.runtime_name = "python3";
  ASSIGN_OR_RETURN(spec.runtime, runtime_of(spec.runtime_name, file));
  RETURN_IF_ERROR(read_python(parsed.table(), file, manifest));
  return manifest;
}

}  // namespace lambent::cli
