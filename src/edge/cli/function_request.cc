#include "edge/cli/function_request.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/json_text.h"
#include "core/base/random.h"
#include "core/domain/function_fields.h"
#include "core/domain/function_words.h"
#include "core/http/multipart.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string shortest(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", number);
  return text;
}

// Lambda has no words for these: they travel as tags. All of them, so that an update also takes
// back what an earlier manifest said.
struct TagWriter {
  Json tags = Json::object();

  template <typename Value>
  void operator()(const FunctionField& field, const Value& value) {
    if (field.tag.empty()) return;
    if constexpr (requires { text_of(value); }) {
      tags["lambent:" + std::string(field.tag)] = text_of(value);
    } else {
      CHECK(false, "a field of this type has no form as a tag");
    }
  }
  // Where there are tags of a URL, Lambda's API has a configuration of it. What is left out gets
  // its default.
  void operator()(const FunctionField& field, const UrlAuth& auth) {
    if (auth != FunctionUrl().auth) tags["lambent:" + std::string(field.tag)] = text_of(auth);
  }
  void operator()(const FunctionField& field, const InvokeMode& mode) {
    if (mode != FunctionUrl().invoke_mode)
      tags["lambent:" + std::string(field.tag)] = text_of(mode);
  }
  void operator()(const FunctionField& field, const std::string& text) {
    if (field.tag.empty() || (field.key == kCorsKey && text.empty())) return;
    tags["lambent:" + std::string(field.tag)] = text;
  }
  void operator()(const FunctionField& field, const std::optional<CpuVariant>& variant) {
    (*this)(field, variant.has_value());
    const CpuVariant described = variant.value_or(CpuVariant{});
    visit_cpu_variant(*this, described);
  }

 private:
  static std::string text_of(bool value) { return value ? "true" : "false"; }
  static std::string text_of(unsigned number) { return std::to_string(number); }
  static std::string text_of(double number) { return shortest(number); }
  static std::string text_of(const Mounts& mounts) { return lambent::text_of(mounts); }
  static std::string text_of(const Schedules& schedules) { return lambent::text_of(schedules); }
  static std::string text_of(const NetworkAccess& access) { return lambent::text_of(access); }
  static std::string text_of(Bytes amount) { return std::to_string(amount.count >> 20) + "MiB"; }
  template <HasWords Enum>
  static std::string text_of(Enum value) {
    return std::string(name_of(value));
  }
};

Json tags_of(const FunctionSpec& spec) {
  TagWriter writer;
  for (const auto& [key, value] : spec.tags) writer.tags[key] = value;
  visit_fields(writer, spec);
  return std::move(writer.tags);
}

// What Lambda has a field for.
struct ConfigurationWriter {
  Json configuration = Json::object();

  template <typename Value>
  void operator()(const FunctionField& field, const Value& value) {
    if (field.lambda.empty() || field.role == FieldRole::kRecord) return;
    if constexpr (requires { json_of(value); }) {
      Json written = json_of(value);
      if (field.lambda == kEphemeralStorage) written = {{"Size", written}};
      configuration[field.lambda] = std::move(written);
    } else {
      CHECK(false, "a field of this type has no form in a configuration");
    }
  }

 private:
  static Json json_of(const std::string& text) { return text; }
  static Json json_of(Bytes amount) { return amount.count >> 20; }
  static Json json_of(Duration duration) {
    return std::chrono::duration_cast<seconds>(duration).count();
  }
  static Json json_of(const Variables& variables) {
    Json json = {{"Variables", Json::object()}};
    for (const auto& [key, value] : variables) json["Variables"][key] = value;
    return json;
  }
};

Json configuration_of(const FunctionSpec& spec) {
  ConfigurationWriter writer;
  visit_fields(writer, spec);
  // Lambda requires both.
  Json& json = writer.configuration;
  if (spec.role.empty()) json["Role"] = "arn:aws:iam::000000000000:role/lambent";
  if (spec.handler.empty()) json["Handler"] = "bootstrap";
  return std::move(writer.configuration);
}

}  // namespace

std::string function_target(const std::string& name, std::string_view rest) {
  return "/2015-03-31/functions/" + http::percent_encode(name) + std::string(rest);
}

std::string settings_text(const FunctionSpec& spec) {
  Json settings = configuration_of(spec);
  settings["Tags"] = tags_of(spec);
  return json_text(settings);
}

http::Request deploy_request(const FunctionSpec& spec, const DeployRequestOptions& options) {
  const std::string text = settings_text(spec);
  std::vector<http::Part> parts = {{"settings", text}};
  if (!options.zip.empty()) parts.push_back({"code", options.zip});
  if (!options.delta.empty()) parts.push_back({"delta", options.delta});
  http::Request request{.method = "PUT",
                        .target = "/v1/functions/" + http::percent_encode(spec.name.name)};
  std::string query;
  if (options.dry_run) query += "&dry_run=1";
  if (!options.code_sha256.empty()) {
    query += "&code_sha256=" + http::percent_encode(options.code_sha256);
  }
  if (!options.base_sha256.empty()) {
    query += "&base_sha256=" + http::percent_encode(options.base_sha256);
  }
  if (!query.empty()) request.target += "?" + query.substr(1);
  SystemRandom random;
  http::MultipartBody body = http::make_multipart(parts, to_string(new_invocation_id(random)));
  request.headers.add("Content-Type", std::move(body.content_type));
  // While packages are installed the worker answers at once, and is asked how far it is.
  request.headers.add("Prefer", "respond-async");
  request.body = std::move(body.body);
  return request;
}

}  // namespace lambent::cli
