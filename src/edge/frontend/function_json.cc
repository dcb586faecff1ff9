#include "edge/frontend/function_json.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/domain/function_fields.h"
#include "core/domain/image_function.h"
#include "core/domain/layer.h"
#include "core/domain/limits.h"
#include "core/domain/python_runtime.h"
#include "core/domain/version.h"
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
  const char* instead = "";
};
constexpr Unsupported kUnsupported[] = {
    {"Architectures", R"(["x86_64"])"},
    {"CapacityProviderConfig", nullptr},
    {"CodeSigningConfigArn", nullptr},
    {"DeadLetterConfig", nullptr,
     "; a function as DestinationConfig.OnFailure of PutFunctionEventInvokeConfig gets what "
     "failed"},
    {"DurableConfig", nullptr},
    {"FileSystemConfigs", nullptr},
    {"KMSKeyArn", nullptr},
    {"LoggingConfig", R"({"LogFormat":"Text"})"},
    {"PackageType", R"("Zip")"},
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
        (one.harmless == nullptr ? std::string() : std::string(" other than ") + one.harmless) +
        one.instead);
  }
  return {};
}

Result<std::vector<std::string>> words_of(const json& object, const char* key) {
  std::vector<std::string> words;
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return words;
  const auto is_text = [](const json& word) { return word.is_string(); };
  if (!found->is_array() || !std::ranges::all_of(*found, is_text)) {
    return invalid("ImageConfig." + std::string(key) + " must be a list of strings");
  }
  for (const json& word : *found) words.push_back(word.get<std::string>());
  return words;
}

// An empty list is none, as in Lambda.
Result<ImageCommand> read_image_config(const json& config) {
  ImageCommand command;
  if (!config.is_object()) return invalid("ImageConfig must be an object");
  ASSIGN_OR_RETURN(std::vector<std::string> entry_point, words_of(config, "EntryPoint"));
  ASSIGN_OR_RETURN(std::vector<std::string> words, words_of(config, "Command"));
  ASSIGN_OR_RETURN(command.working_directory, read_string(config, "WorkingDirectory"));
  if (!entry_point.empty()) command.entry_point = std::move(entry_point);
  if (!words.empty()) command.command = std::move(words);
  return command;
}

Result<void> apply_image(FunctionSpec& spec, const ConfigurationPatch& patch) {
  if (!runs_image(spec)) {
    const ImageCommand nothing;
    if (!patch.image || *patch.image == nothing) return {};
    return invalid("ImageConfig is for functions of images (PackageType Image)");
  }
  if (!patch.image) return {};
  ASSIGN_OR_RETURN(const ImageCommand now, parse_image_command(spec.handler));
  ImageCommand command = *patch.image;
  command.image = now.image;
  spec.handler = text_of(command);
  const auto good = parse_image_command(spec.handler);
  return good.ok() ? Result<void>{} : good.error();
}

// {"EntryPoint": [...], "Command": [...], "WorkingDirectory": "/x"}, as far as it is given.
json image_config_of(const ImageCommand& command) {
  json config = json::object();
  if (command.entry_point) config["EntryPoint"] = *command.entry_point;
  if (command.command) config["Command"] = *command.command;
  if (!command.working_directory.empty()) config["WorkingDirectory"] = command.working_directory;
  return config;
}

// ["arn:aws:lambda:us-east-1:000000000000:layer:torch:3"] as the tag has it: "torch:3".
Result<std::string> read_layers(const json& list) {
  std::string text;
  if (!list.is_array()) return invalid("Layers must be a list of ARNs");
  for (const json& each : list) {
    const std::string arn = each.is_string() ? each.get<std::string>() : std::string();
    ASSIGN_OR_RETURN(const LayerReference layer, parse_layer_arn(arn));
    text += (text.empty() ? "" : ",") + text_of({layer});
  }
  const auto layers = parse_layers(text);
  if (!layers.ok()) return layers.error().with_context("Layers");
  return text;
}

Result<void> apply_layers(FunctionSpec& spec, const ConfigurationPatch& patch) {
  if (!patch.layers) return {};
  if (runs_image(spec) && !patch.layers->empty()) {
    return invalid("Layers are for functions of zips; an image has what it needs in it");
  }
  const std::string tag(kLayersTag);
  spec.tags.erase(tag);
  if (!patch.layers->empty()) spec.tags[tag] = *patch.layers;
  return {};
}

// Lambda's functions of images have neither a runtime nor a handler.
void describe_image(const FunctionSpec& spec, json& configuration) {
  configuration.erase("Runtime");
  configuration.erase("Handler");
  configuration["PackageType"] = "Image";
  const auto command = parse_image_command(spec.handler);
  if (!command.ok()) return;
  const json config = image_config_of(*command);
  if (!config.empty()) configuration["ImageConfigResponse"] = {{"ImageConfig", config}};
}

Result<std::string> string_of(const json& value, std::string_view key) {
  if (!value.is_string()) return invalid(std::string(key) + " must be a string");
  return value.get<std::string>();
}

// A whole number within what we can hold; the value's own limits are validate()'s.
Result<uint64_t> whole_number(const json& value, std::string_view key) {
  if (!value.is_number_integer()) return invalid(std::string(key) + " must be a whole number");
  const auto number = value.get<int64_t>();
  if (number < 0 || number > 1'000'000) return invalid(std::string(key) + " is out of range");
  return static_cast<uint64_t>(number);
}

// Reads the settings that a request gives, and remembers the first thing that is wrong.
class PatchReader {
 public:
  PatchReader(const json& object, ConfigurationPatch& patch) : object_(object), patch_(patch) {
    visit_fields(*this, patch.values);
  }

  template <typename Value>
  void operator()(const FunctionField& field, Value& value) {
    if (field.lambda.empty() || field.role != FieldRole::kSetting) return;
    if constexpr (requires(const json& found) { read(field.lambda, found, value); }) {
      const auto found = object_.find(field.lambda);
      if (found == object_.end() || found->is_null() || !verdict_.ok()) return;
      verdict_ = read(field.lambda, *found, value);
      patch_.given.insert(field.lambda);
    } else {
      CHECK(false, "a field of this type has no form in a configuration");
    }
  }

  const Result<void>& verdict() const { return verdict_; }

 private:
  static Result<void> read(std::string_view key, const json& found, std::string& to) {
    ASSIGN_OR_RETURN(to, string_of(found, key));
    return {};
  }
  static Result<void> read(std::string_view key, const json& found, Duration& to) {
    ASSIGN_OR_RETURN(const uint64_t number, whole_number(found, key));
    to = seconds(number);
    return {};
  }
  static Result<void> read(std::string_view key, const json& found, Bytes& to) {
    const bool is_wrapped = key == kEphemeralStorage;
    if (is_wrapped && (!found.is_object() || !found.contains("Size"))) {
      return invalid(std::string(key) + " must be an object with a Size in MiB");
    }
    ASSIGN_OR_RETURN(const uint64_t number,
                     whole_number(is_wrapped ? found.at("Size") : found, key));
    to = Bytes::mib(number);
    return {};
  }
  static Result<void> read(std::string_view key, const json& found, Variables& to) {
    if (!found.is_object()) return invalid(std::string(key) + " must be an object");
    ASSIGN_OR_RETURN(to, read_strings(found, "Variables"));
    return {};
  }

  const json& object_;
  ConfigurationPatch& patch_;
  Result<void> verdict_;
};

// Changes the fields that a patch gives.
struct PatchApplier {
  const std::set<std::string_view>& given;

  template <typename Value>
  void operator()(const FunctionField& field, Value& to, const Value& from) {
    if (given.contains(field.lambda)) to = from;
  }
};

// PackageType says how a new function's code comes, which is no setting.
json without_package_type(const json& object) {
  json settings = object;
  if (settings.contains("PackageType") && settings["PackageType"] == "Image") {
    settings.erase("PackageType");
  }
  return settings;
}

Result<Runtime> runtime_of(const std::string& name) {
  if (is_python_runtime(name)) return Runtime::kPython;
  if (name == kImageRuntime) return Runtime::kProvided;
  if (name == "provided" || name.starts_with("provided.")) return Runtime::kProvided;
  return invalid("Runtime '" + name +
                 "' is not supported: use python3, python3.N with N from 3 to " +
                 std::to_string(kNewestPython) +
                 ", or provided.al2023 with an executable 'bootstrap' in the package");
}

// Writes the fields that Lambda has. Its settings are in seconds and MiB; what it reports is in
// bytes, and a time.
struct ConfigurationWriter {
  json configuration = json::object();

  template <typename Value>
  void operator()(const FunctionField& field, const Value& value) {
    if (field.lambda.empty()) return;
    if constexpr (requires { json_of(field.role, value); }) {
      json written = json_of(field.role, value);
      if (field.lambda == kEphemeralStorage) written = {{"Size", written}};
      configuration[field.lambda] = std::move(written);
    } else {
      CHECK(false, "a field of this type has no form in a configuration");
    }
  }
  void operator()(const FunctionField& field, const Variables& variables) {
    if (field.lambda.empty() || variables.empty()) return;
    configuration[field.lambda] = {{"Variables", variables}};
  }

 private:
  static json json_of(FieldRole, const std::string& text) { return text; }
  static json json_of(FieldRole role, Bytes amount) {
    return role == FieldRole::kRecord ? amount.count : amount.count >> 20;
  }
  static json json_of(FieldRole role, Duration duration) {
    if (role == FieldRole::kRecord) return lambda_time(duration);
    return std::chrono::duration_cast<seconds>(duration).count();
  }
};

}  // namespace

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

Result<std::string> read_string(const json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::string();
  return string_of(*found, key);
}

Result<std::map<std::string, std::string>> read_strings(const json& object, std::string_view key) {
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
  const PatchReader reader(object, patch);
  RETURN_IF_ERROR(reader.verdict());
  if (const auto found = object.find("ImageConfig"); found != object.end() && !found->is_null()) {
    ASSIGN_OR_RETURN(patch.image, read_image_config(*found));
  }
  if (const auto found = object.find("Layers"); found != object.end() && !found->is_null()) {
    ASSIGN_OR_RETURN(patch.layers, read_layers(*found));
  }
  if (patch.values.description.size() > limits::kDescriptionLength) {
    return invalid("Description has at most 256 bytes");
  }
  return patch;
}

Result<FunctionSpec> apply_patch(FunctionSpec spec, const ConfigurationPatch& patch) {
  const bool was_image = runs_image(spec);
  if (was_image && (patch.given.contains("Runtime") || patch.given.contains("Handler"))) {
    return invalid("a function of an image has neither Runtime nor Handler");
  }
  PatchApplier applier{patch.given};
  visit_fields(applier, spec, patch.values);
  if (patch.given.contains("Runtime")) {
    ASSIGN_OR_RETURN(spec.runtime, runtime_of(spec.runtime_name));
  }
  RETURN_IF_ERROR(apply_layers(spec, patch));
  RETURN_IF_ERROR(apply_tags(spec));
  RETURN_IF_ERROR(apply_image(spec, patch));
  RETURN_IF_ERROR(validate(spec));
  return spec;
}

Result<FunctionSpec> read_new_function(const json& object, TenantId tenant) {
  FunctionSpec spec;
  ASSIGN_OR_RETURN(const std::string name, read_string(object, "FunctionName"));
  ASSIGN_OR_RETURN(const LambdaName parsed, parse_lambda_name(name));
  if (!parsed.qualifier.empty()) return invalid("a new function's name has no qualifier");
  spec.name = {tenant, parsed.name};
  ASSIGN_OR_RETURN(spec.tags, read_strings(object, "Tags"));
  ASSIGN_OR_RETURN(ConfigurationPatch patch, read_patch(without_package_type(object)));
  const bool is_image = object.contains("PackageType") && object["PackageType"] == "Image";
  if (is_image) {
    const auto code = object.find("Code");
    if (code == object.end() || !code->is_object()) return invalid("Code is missing");
    ASSIGN_OR_RETURN(const ImageReference image, read_image_uri(*code));
    spec.runtime_name = kImageRuntime;
    spec.handler = text_of(image);
  } else if (!patch.given.contains("Runtime")) {
    return invalid("Runtime is missing");
  }
  if (!patch.given.contains("Role")) return invalid("Role is missing (any text will do)");
  return apply_patch(spec, patch);
}

Result<ImageReference> read_image_uri(const json& object) {
  ASSIGN_OR_RETURN(const std::string uri, read_string(object, "ImageUri"));
  if (uri.empty()) return invalid("ImageUri, the name of the image, is missing");
  return parse_image_reference(uri);
}

Result<bool> read_bool(const json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return false;
  if (!found->is_boolean()) return invalid(std::string(key) + " must be true or false");
  return found->get<bool>();
}

json to_json(const FunctionSpec& spec) {
  ConfigurationWriter writer;
  visit_fields(writer, spec);
  writer.configuration.update({
      {"FunctionName", function_of(spec.name).name},
      {"FunctionArn", arn_of(spec.name.name)},
      {"RevisionId", revision_id_of(spec)},
      {"Version", version_of(spec.name)},
      {"State", "Active"},
      {"LastUpdateStatus", "Successful"},
      {"PackageType", "Zip"},
      {"Architectures", {"x86_64"}},
      {"TracingConfig", {{"Mode", "PassThrough"}}},
      {"SnapStart", {{"ApplyOn", "None"}, {"OptimizationStatus", "Off"}}},
  });
  if (runs_image(spec)) describe_image(spec, writer.configuration);
  const auto tag = spec.tags.find(std::string(kLayersTag));
  const auto layers = tag == spec.tags.end() ? Result<Layers>(Layers()) : parse_layers(tag->second);
  if (layers.ok() && !layers->empty()) {
    json shown = json::array();
    for (const LayerReference& layer : *layers) shown.push_back({{"Arn", layer_arn_of(layer)}});
    writer.configuration["Layers"] = std::move(shown);
  }
  return std::move(writer.configuration);
}

json to_json(const FunctionSpec& spec, const std::optional<DeploymentStatus>& deployment,
             const std::string& warning) {
  json configuration = to_json(spec);
  if (!deployment) {
    // Lambda's clients show the reason of any state.
    if (!warning.empty()) configuration["StateReason"] = warning;
    return configuration;
  }
  // As Lambda has it, so that its clients' waiters work.
  const std::string state = deployment->creates ? "State" : "LastUpdateStatus";
  std::string reason = deployment->progress;
  if (reason.empty()) {
    reason = runs_image(spec) ? "pulling the function's image"
                              : "installing the function's Python packages";
  }
  std::string code = "Creating";
  if (deployment->failure) {
    reason = deployment->failure->message;
    code = name_of(deployment->failure->code);
  }
  const char* under_way = deployment->creates ? "Pending" : "InProgress";
  configuration[state] = deployment->failure ? "Failed" : under_way;
  configuration[state + "Reason"] = reason;
  configuration[state + "ReasonCode"] = code;
  return configuration;
}

std::string revision_id_of(const Alias& alias) {
  return to_string(InvocationId{std::hash<std::string>()(alias.name), alias.revision});
}

json to_json(const Alias& alias) {
  json shown = {{"AliasArn", arn_of(alias.function.name + ":" + alias.name)},
                {"Name", alias.name},
                {"FunctionVersion", alias.version},
                {"Description", alias.description},
                {"RevisionId", revision_id_of(alias)}};
  if (!alias.second.empty()) {
    shown["RoutingConfig"] = {{"AdditionalVersionWeights", {{alias.second, alias.second_share}}}};
  }
  return shown;
}

json to_json(const Cors& cors) {
  json shown = json::object();
  const auto put = [&](const char* name, const std::vector<std::string>& list) {
    if (!list.empty()) shown[name] = list;
  };
  put("AllowOrigins", cors.allow_origins);
  put("AllowMethods", cors.allow_methods);
  put("AllowHeaders", cors.allow_headers);
  put("ExposeHeaders", cors.expose_headers);
  if (cors.allow_credentials) shown["AllowCredentials"] = true;
  if (cors.max_age_s > 0) shown["MaxAge"] = static_cast<int>(cors.max_age_s);
  return shown;
}

std::string revision_id_of(const FunctionSpec& spec) {
  return to_string(InvocationId{spec.id.value, spec.revision});
}

}  // namespace lambent::frontend
