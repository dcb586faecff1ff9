#include "edge/frontend/function_json.h"

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "edge/frontend/function_tags.h"
#include "edge/frontend/lambda_name.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

Error invalid(const std::string& what) { return Error{ErrorCode::kInvalidArgument, what}; }

// What Lambda has and we do not, with the value (if any) that asks for what we do anyway.
struct Unsupported {
  const char* key;
  const char* harmless;  // JSON; null, "", [], {} and false are always harmless
};
constexpr Unsupported kUnsupported[] = {
    {"Architectures", R"(["x86_64"])"},
    {"CapacityProviderConfig", nullptr},
    {"CodeSigningConfigArn", nullptr},
    {"DeadLetterConfig", nullptr},
    {"DurableConfig", nullptr},
    {"EphemeralStorage", R"({"Size":512})"},
    {"FileSystemConfigs", nullptr},
    {"ImageConfig", nullptr},
    {"KMSKeyArn", nullptr},
    {"Layers", nullptr},
    {"LoggingConfig", R"({"LogFormat":"Text"})"},
    {"PackageType", R"("Zip")"},
    {"Publish", nullptr},
    {"PublishTo", nullptr},
    {"SnapStart", R"({"ApplyOn":"None"})"},
    {"TenancyConfig", nullptr},
    {"TracingConfig", R"({"Mode":"PassThrough"})"},
    {"VpcConfig", nullptr},
};

// Nothing in it asks for anything.
bool is_neutral(const json& value) {
  if (value.is_null() || value == false || value == "") return true;
  if (!value.is_structured()) return false;
  for (const json& part : value) {
    if (!is_neutral(part)) return false;
  }
  return true;
}

Result<void> refuse_unsupported(const json& object) {
  for (const Unsupported& one : kUnsupported) {
    const auto found = object.find(one.key);
    if (found == object.end() || is_neutral(*found)) continue;
    if (one.harmless != nullptr && *found == json::parse(one.harmless)) continue;
    return invalid(
        std::string(one.key) + " is not supported" +
        (one.harmless == nullptr ? std::string() : std::string(" other than ") + one.harmless));
  }
  return {};
}

// A whole number within what we can hold; the value's own limits are validate()'s.
Result<std::optional<int64_t>> read_number(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::optional<int64_t>();
  if (!found->is_number_integer()) return invalid(std::string(key) + " must be a whole number");
  const auto number = found->get<int64_t>();
  if (number < 0 || number > 1'000'000) {
    return invalid(std::string(key) + " is out of range");
  }
  return std::optional<int64_t>(number);
}

Result<std::optional<std::string>> read_optional(const json& object, const char* key) {
  if (!object.contains(key) || object.at(key).is_null()) return std::optional<std::string>();
  ASSIGN_OR_RETURN(std::string text, read_string(object, key));
  return std::optional<std::string>(std::move(text));
}

Result<std::optional<std::map<std::string, std::string>>> read_environment(const json& object) {
  std::optional<std::map<std::string, std::string>> environment;
  const auto found = object.find("Environment");
  if (found == object.end() || found->is_null()) return environment;
  if (!found->is_object()) return invalid("Environment must be an object");
  ASSIGN_OR_RETURN(environment, read_strings(*found, "Variables"));
  return environment;
}

Result<Runtime> runtime_of(const std::string& name) {
  if (name.starts_with("python3")) return Runtime::kPython;
  if (name == "provided" || name.starts_with("provided.")) return Runtime::kProvided;
  return invalid("Runtime '" + name +
                 "' is not supported: use python3.N, or provided.al2023 with an executable "
                 "'bootstrap' in the package");
}

// "2026-11-21T01:31:52.123+0000"
std::string lambda_time(Duration since_epoch) {
  const auto whole = std::chrono::floor<seconds>(since_epoch);
  const std::time_t time = whole.count();
  std::tm parts{};
  gmtime_r(&time, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[48];
  const auto fraction = std::chrono::duration_cast<milliseconds>(since_epoch - whole).count();
  std::snprintf(text, sizeof text, "%s.%03d+0000", date, static_cast<int>(fraction));
  return text;
}

}  // namespace

Result<std::string> read_string(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::string();
  if (!found->is_string()) return invalid(std::string(key) + " must be a string");
  return found->get<std::string>();
}

Result<std::map<std::string, std::string>> read_strings(const json& object, const char* key) {
  std::map<std::string, std::string> strings;
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return strings;
  if (!found->is_object()) return invalid(std::string(key) + " must be an object of strings");
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) return invalid(std::string(key) + "." + name + " must be a string");
    strings[name] = value.get<std::string>();
  }
  return strings;
}

Result<ConfigurationPatch> read_patch(const json& object) {
  RETURN_IF_ERROR(refuse_unsupported(object));
  ConfigurationPatch patch;
  ASSIGN_OR_RETURN(patch.description, read_optional(object, "Description"));
  ASSIGN_OR_RETURN(patch.handler, read_optional(object, "Handler"));
  ASSIGN_OR_RETURN(patch.role, read_optional(object, "Role"));
  ASSIGN_OR_RETURN(patch.runtime_name, read_optional(object, "Runtime"));
  ASSIGN_OR_RETURN(const std::optional<int64_t> timeout, read_number(object, "Timeout"));
  if (timeout.has_value()) patch.timeout = seconds(*timeout);
  ASSIGN_OR_RETURN(const std::optional<int64_t> memory, read_number(object, "MemorySize"));
  if (memory.has_value()) patch.memory = Bytes::mib(static_cast<uint64_t>(*memory));
  ASSIGN_OR_RETURN(patch.environment, read_environment(object));
  if (patch.description.value_or("").size() > limits::kDescriptionLength) {
    return invalid("Description has at most 256 bytes");
  }
  return patch;
}

Result<FunctionSpec> apply_patch(FunctionSpec spec, const ConfigurationPatch& patch) {
  if (patch.description.has_value()) spec.description = *patch.description;
  if (patch.handler.has_value()) spec.handler = *patch.handler;
  if (patch.role.has_value()) spec.role = *patch.role;
  if (patch.timeout.has_value()) spec.timeout = *patch.timeout;
  if (patch.memory.has_value()) spec.memory = *patch.memory;
  if (patch.environment.has_value()) spec.environment = *patch.environment;
  if (patch.runtime_name.has_value()) {
    spec.runtime_name = *patch.runtime_name;
    ASSIGN_OR_RETURN(spec.runtime, runtime_of(spec.runtime_name));
  }
  RETURN_IF_ERROR(apply_tags(spec));
  RETURN_IF_ERROR(validate(spec));
  return spec;
}

json to_json(const FunctionSpec& spec) {
  json object = {
      {"FunctionName", spec.name.name},
      {"FunctionArn", arn_of(spec.name.name)},
      {"Runtime", spec.runtime_name},
      {"Role", spec.role},
      {"Handler", spec.handler},
      {"Description", spec.description},
      {"Timeout", std::chrono::duration_cast<seconds>(spec.timeout).count()},
      {"MemorySize", spec.memory.count >> 20},
      {"CodeSize", spec.code_size.count},
      {"CodeSha256", spec.code_sha256},
      {"LastModified", lambda_time(spec.last_modified)},
      {"RevisionId", revision_id_of(spec)},
      {"Version", "$LATEST"},
      {"State", "Active"},
      {"LastUpdateStatus", "Successful"},
      {"PackageType", "Zip"},
      {"Architectures", {"x86_64"}},
      {"EphemeralStorage", {{"Size", 512}}},
      {"TracingConfig", {{"Mode", "PassThrough"}}},
      {"SnapStart", {{"ApplyOn", "None"}, {"OptimizationStatus", "Off"}}},
  };
  if (!spec.environment.empty()) object["Environment"] = {{"Variables", spec.environment}};
  return object;
}

std::string revision_id_of(const FunctionSpec& spec) {
  return to_string(InvocationId{spec.id.value, spec.revision});
}

}  // namespace lambent::frontend
