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
#include "core/domain/openai_models.h"
#include "core/domain/python_runtime.h"
#include "decide/pipeline/limits.h"
#include "edge/cli/manifest_keys.h"
#include "edge/cli/staging.h"
#include "edge/cli/table_reader.h"
#include "edge/cli/workflow_manifest.h"

namespace lambent::cli {
namespace {

// The keys that are no fields of the function.
constexpr std::string_view kOtherKeys[] = {
    "graph",   "code",   "bundles", "sources",     "component",         "output",        "slo",
    "command", "python", "image",   "entry_point", "working_directory", kOpenaiModelsKey};

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

// Reads the fields of a function. A field's key names its table.
class FieldReader {
 public:
  FieldReader(const toml::table& root, const std::string& file)
      : file_(file), root_(root, "", file) {
    root_.know(kOtherKeys);
    root_.know(model_keys());
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

// Keys that say something only about functions of other kinds.
Result<void> check_kind_keys(const toml::table& table, FunctionKind kind, const std::string& file) {
  for (const std::string_view key : model_keys()) {
    if (table.get(key) != nullptr) {
      return wrong_key(table, key, file, std::string(key) + " is for functions of kind 'model'");
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
    if (table.get(key) != nullptr) {
      return wrong_key(table, key, file,
                       "a function of kind '" + std::string(name_of(kind)) + "' has no " +
                           std::string(key) + (key == "slo" ? "; its SLO is slo_ms = 200" : ""));
    }
  }
  return {};
}

// Its graph is a file of its code, or follows from tables here.
Result<void> read_workflow(const toml::table& table, const std::string& file, Manifest& manifest) {
  ASSIGN_OR_RETURN(WorkflowTables tables, read_workflow_tables(table, file));
  for (const char* key : {"graph", "code"}) {
    if (!tables.json.empty() && table.get(key) != nullptr) {
      return wrong_key(table, key, file,
                       std::string(key) + " is for workflows without [[component]] tables");
    }
  }
  if (tables.json.empty() && table.get("output") != nullptr) {
    return wrong_key(table, "output", file,
                     "output belongs to [[component]] tables; there are none");
  }
  manifest.workflow = std::move(tables.json);
  manifest.packages = std::move(tables.packages);
  return {};
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
    return wrong_key(table, "command", file,
                     "a function of kind 'http' has the command that starts its program, such as "
                     "command = [\"python3\", \"server.py\"]");
  }
  std::vector<std::string> command;
  for (const toml::node& word : *words) command.push_back(word.as_string()->get());
  spec.handler = command_text(command);
  return {};
}

Result<void> read_python(const toml::table& root, const std::string& file, Manifest& manifest) {
  const toml::node* node = root.get("python");
  if (node == nullptr) return {};
  if (!node->is_table()) return wrong_key(root, "python", file, "python is a table, [python]");
  if (manifest.spec.runtime != Runtime::kPython) {
    return wrong_key(root, "python", file,
                     "[python] is for functions with runtime = \"python3\", and this one has "
                     "runtime = \"" +
                         manifest.spec.runtime_name + "\"");
  }
  ASSIGN_OR_RETURN(manifest.python,
                   read_python_section(*node->as_table(), file, manifest.warnings));
  return {};
}

}  // namespace

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
