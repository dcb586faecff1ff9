#include "edge/cli/manifest.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/base/spelling.h"
#include "decide/pipeline/limits.h"
#include "edge/cli/workflow_manifest.h"

namespace lambent::cli {
namespace {

constexpr std::string_view kKeys[] = {
    "name",      "kind",   "runtime",     "handler", "graph",           "code",    "description",
    "timeout_s", "memory", "weight",      "role",    "max_concurrency", "bundles", "sources",
    "gpu",       "cpu",    "environment", "tags",    "component",       "output",  "slo"};
constexpr std::string_view kGpuKeys[] = {"memory",     "launch_mode", "memory_mode", "working_set",
                                         "checkpoint", "runtime",     "domain",      "share"};
constexpr std::string_view kCpuKeys[] = {"handler", "gpu_speedup"};
constexpr std::string_view kSloKeys[] = {"ms", "scale"};

// Reads the keys of one table, remembering the first thing that is wrong.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string prefix, const std::string& file)
      : table_(table), prefix_(std::move(prefix)), file_(file) {}

  void text(std::string_view key, std::string& to) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    if (const auto value = node->value_exact<std::string>()) {
      to = *value;
    } else {
      wrong(key, *node, "must be text in quotes");
    }
  }
  std::optional<double> number(std::string_view key) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    if (node->is_number()) return node->value<double>();
    wrong(key, *node, "must be a number");
    return std::nullopt;
  }
  void whole(std::string_view key, unsigned& to) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    const auto value = node->value_exact<int64_t>();
    if (value && *value > 0 && *value <= 1'000'000) {
      to = static_cast<unsigned>(*value);
    } else {
      wrong(key, *node, "must be a whole number above zero");
    }
  }
  void boolean(std::string_view key, bool& to) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    const auto value = node->value_exact<bool>();
    if (!value) return wrong(key, *node, "must be true or false");
    to = *value;
  }
  // "512M", or a number of MiB.
  void bytes(std::string_view key, Bytes& to) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    if (const auto text = node->value_exact<std::string>()) {
      const auto amount = parse_bytes(*text);
      if (amount.ok()) {
        to = *amount;
      } else {
        wrong(key, *node, "is '" + *text + "', not an amount such as \"512M\"");
      }
    } else if (const auto mib = node->value_exact<int64_t>();
               mib && *mib >= 0 && *mib <= (1 << 24)) {
      to = Bytes::mib(static_cast<uint64_t>(*mib));
    } else {
      wrong(key, *node, "must be an amount such as \"512M\", or a number of MiB");
    }
  }
  void texts(std::string_view key, std::vector<std::string>& to) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    if (!node->is_array()) return wrong(key, *node, "must be a list of texts");
    for (const toml::node& each : *node->as_array()) {
      const auto value = each.value_exact<std::string>();
      if (!value) return wrong(key, each, "must be a list of texts");
      to.push_back(*value);
    }
  }
  void text_map(std::string_view key, std::map<std::string, std::string>& to) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    if (!node->is_table()) return wrong(key, *node, "must be a table of texts");
    for (const auto& [name, value] : *node->as_table()) {
      const auto text = value.value_exact<std::string>();
      if (!text) return wrong(key, value, "must have only texts in quotes");
      to[std::string(name.str())] = *text;
    }
  }
  const toml::table* table(std::string_view key) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return nullptr;
    if (!node->is_table()) wrong(key, *node, "must be a table");
    return node->as_table();
  }
  void wrong(std::string_view key, const toml::node& node, const std::string& why) {
    if (!error_.empty()) return;
    error_ = file_ + " line " + std::to_string(node.source().begin.line) + ": " + prefix_ +
             std::string(key) + " " + why;
  }
  void warn_of_unknown(std::span<const std::string_view> known,
                       std::vector<std::string>& warnings) const {
    for (const auto& [key, node] : table_) {
      if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
      warnings.push_back(file_ + " line " + std::to_string(node.source().begin.line) +
                         ": no key '" + prefix_ + std::string(key.str()) + "'" +
                         did_you_mean(key.str(), known, prefix_));
    }
  }
  Result<void> verdict() const {
    if (error_.empty()) return {};
    return Error{ErrorCode::kInvalidArgument, error_};
  }

 private:
  const toml::table& table_;
  std::string prefix_;
  const std::string& file_;
  std::string error_;
};

Result<void> read_gpu(const toml::table& table, const std::string& file, Manifest& manifest) {
  TableReader reader(table, "gpu.", file);
  reader.warn_of_unknown(kGpuKeys, manifest.warnings);
  reader.bytes("memory", manifest.spec.gpu.memory);
  std::string mode = "compute";
  reader.text("launch_mode", mode);
  if (mode == "model") {
    manifest.spec.gpu.launch_mode = GpuNeeds::LaunchMode::kModel;
  } else if (mode != "compute") {
    reader.wrong("launch_mode", *table.get("launch_mode"),
                 "is '" + mode + "'; it can be 'compute' or 'model'");
  }
  std::string memory_mode(name_of(manifest.spec.gpu.memory_mode));
  reader.text("memory_mode", memory_mode);
  if (const auto known = memory_mode_from(memory_mode)) {
    manifest.spec.gpu.memory_mode = *known;
  } else {
    reader.wrong("memory_mode", *table.get("memory_mode"),
                 "is '" + memory_mode + "'; it can be 'vmm', 'uvm' or 'off'");
  }
  std::string working_set(name_of(manifest.spec.gpu.working_set));
  reader.text("working_set", working_set);
  if (const auto known = working_set_from(working_set)) {
    manifest.spec.gpu.working_set = *known;
  } else {
    reader.wrong("working_set", *table.get("working_set"),
                 "is '" + working_set + "'; it can be 'worker', 'whole' or 'touched'");
  }
  reader.boolean("checkpoint", manifest.spec.gpu.checkpoint);
  std::string runtime(name_of(manifest.spec.gpu.runtime));
  reader.text("runtime", runtime);
  if (const auto known = gpu_runtime_from(runtime)) {
    manifest.spec.gpu.runtime = *known;
  } else {
    reader.wrong("runtime", *table.get("runtime"),
                 "is '" + runtime + "'; it can be 'own' or 'shared'");
  }
  reader.text("domain", manifest.spec.gpu.domain);
  reader.whole("share", manifest.spec.gpu.share);
  return reader.verdict();
}

// That the table is there at all says that the function also runs without a GPU.
Result<void> read_cpu(const toml::table& table, const std::string& file, Manifest& manifest) {
  TableReader reader(table, "cpu.", file);
  reader.warn_of_unknown(kCpuKeys, manifest.warnings);
  CpuVariant variant;
  reader.text("handler", variant.handler);
  if (const auto speedup = reader.number("gpu_speedup")) variant.gpu_speedup = *speedup;
  manifest.spec.cpu_variant = std::move(variant);
  return reader.verdict();
}

// As pipeline.json has it.
Result<void> read_slo(const toml::table& table, const std::string& file, Manifest& manifest) {
  TableReader reader(table, "slo.", file);
  reader.warn_of_unknown(kSloKeys, manifest.warnings);
  const auto ms = reader.number("ms"), scale = reader.number("scale");
  RETURN_IF_ERROR(reader.verdict());
  const std::string place = file + " line " + std::to_string(table.source().begin.line) + ": ";
  if (ms.has_value() == scale.has_value()) {
    return Error{ErrorCode::kInvalidArgument,
                 place +
                     "[slo] has either ms, the time from a request to its answer, or scale, "
                     "which multiplies the time of the function alone"};
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
  if (name == "python" || name.starts_with("python3")) return Runtime::kPython;
  return Error{ErrorCode::kInvalidArgument,
               file + ": runtime is '" + name +
                   "'; it can be 'provided.al2023' (an executable named bootstrap) or 'python3'"};
}

std::string graph_file_of(FunctionKind kind) {
  switch (kind) {
    case FunctionKind::kHandler:
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

// Keys that say something about functions of other kinds alone.
Result<void> check_kind_keys(const toml::table& table, FunctionKind kind, const std::string& file) {
  static constexpr std::string_view kNotOfHandlers[] = {"graph", "component", "output", "slo"};
  static constexpr std::string_view kNotOfKernels[] = {"runtime",   "handler", "environment", "cpu",
                                                       "component", "output",  "slo"};
  static constexpr std::string_view kNotOfWorkflows[] = {
      "runtime", "handler", "environment", "gpu", "cpu", "bundles", "sources", "slo"};
  static constexpr std::string_view kNotOfPipelines[] = {"handler", "cpu", "component", "output"};
  std::span<const std::string_view> foreign = kNotOfHandlers;
  if (kind == FunctionKind::kKernel) foreign = kNotOfKernels;
  if (kind == FunctionKind::kWorkflow) foreign = kNotOfWorkflows;
  if (kind == FunctionKind::kPipeline) foreign = kNotOfPipelines;
  for (const std::string_view key : foreign) {
    if (const toml::node* node = table.get(key)) {
      return Error{ErrorCode::kInvalidArgument,
                   file + " line " + std::to_string(node->source().begin.line) +
                       ": a function of kind '" + std::string(name_of(kind)) + "' has no " +
                       std::string(key)};
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

}  // namespace

Result<Manifest> parse_manifest(std::string_view text, const std::string& file) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const auto& where = parsed.error().source().begin;
    return Error{ErrorCode::kInvalidArgument, file + " line " + std::to_string(where.line) +
                                                  ", column " + std::to_string(where.column) +
                                                  ": " + std::string(parsed.error().description())};
  }
  Manifest manifest;
  FunctionSpec& spec = manifest.spec;
  TableReader reader(parsed.table(), "", file);
  reader.warn_of_unknown(kKeys, manifest.warnings);
  std::string kind = "handler";
  reader.text("kind", kind);
  reader.text("name", spec.name.name);
  reader.text("runtime", spec.runtime_name);
  reader.text("handler", spec.handler);
  reader.text("code", manifest.code);
  reader.text("description", spec.description);
  reader.text("role", spec.role);
  reader.bytes("memory", spec.memory);
  reader.whole("max_concurrency", spec.max_concurrency);
  reader.texts("bundles", manifest.bundles);
  reader.texts("sources", manifest.sources);
  reader.text_map("environment", spec.environment);
  reader.text_map("tags", spec.tags);
  if (const auto weight = reader.number("weight")) spec.weight = *weight;
  if (const auto timeout = reader.number("timeout_s")) {
    // Beyond these bounds validate() refuses; clamped so that the clock's type can hold it.
    spec.timeout = from_seconds(std::isfinite(*timeout) ? std::clamp(*timeout, -1.0, 1e6) : -1.0);
  }
  const toml::table* gpu = reader.table("gpu");
  const toml::table* cpu = reader.table("cpu");
  const toml::table* slo = reader.table("slo");
  RETURN_IF_ERROR(reader.verdict());
  if (gpu != nullptr) RETURN_IF_ERROR(read_gpu(*gpu, file, manifest));
  if (cpu != nullptr) RETURN_IF_ERROR(read_cpu(*cpu, file, manifest));
  const auto known = function_kind_from(kind);
  if (!known) {
    return Error{
        ErrorCode::kInvalidArgument,
        file + ": kind is '" + kind + "'; it can be 'handler', 'kernel', 'workflow' or 'pipeline'"};
  }
  spec.kind = *known;
  RETURN_IF_ERROR(check_kind_keys(parsed.table(), spec.kind, file));
  if (slo != nullptr) RETURN_IF_ERROR(read_slo(*slo, file, manifest));
  if (spec.kind == FunctionKind::kWorkflow) {
    RETURN_IF_ERROR(read_workflow(parsed.table(), file, manifest));
  }
  if (spec.kind != FunctionKind::kHandler) {
    spec.handler = graph_file_of(spec.kind);
    reader.text("graph", spec.handler);
    RETURN_IF_ERROR(reader.verdict());
  }
  if (spec.kind == FunctionKind::kPipeline && parsed.table().get("runtime") == nullptr) {
    spec.runtime_name = "python3";
  }
  ASSIGN_OR_RETURN(spec.runtime, runtime_of(spec.runtime_name, file));
  return manifest;
}

}  // namespace lambent::cli
