#include "edge/cli/function_request.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/base64.h"
#include "core/base/check.h"
#include "core/domain/function_fields.h"
#include "core/domain/function_words.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

http::Request request(std::string method, std::string target, const Json& body) {
  http::Request request{.method = std::move(method), .target = std::move(target)};
  request.headers.add("Content-Type", "application/json");
  request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return request;
}

// While packages are installed the worker answers at once, and is asked how far it is.
http::Request answered_early(http::Request request) {
  request.headers.add("Prefer", "respond-async");
  return request;
}

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
  void operator()(const FunctionField& field, const std::optional<CpuVariant>& variant) {
    (*this)(field, variant.has_value());
    const CpuVariant described = variant.value_or(CpuVariant{});
    visit_cpu_variant(*this, described);
  }

 private:
  static std::string text_of(const std::string& text) { return text; }
  static std::string text_of(bool value) { return value ? "true" : "false"; }
  static std::string text_of(unsigned number) { return std::to_string(number); }
  static std::string text_of(double number) { return shortest(number); }
  static std::string text_of(const Mounts& mounts) { return lambent::text_of(mounts); }
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

http::Request create_request(const FunctionSpec& spec, std::string_view zip) {
  Json json = configuration_of(spec);
  json["Tags"] = tags_of(spec);
  json["Code"] = {{"ZipFile", base64_encode(zip)}};
  return answered_early(request("POST", "/2015-03-31/functions", json));
}

http::Request update_code_request(const std::string& name, std::string_view zip) {
  return answered_early(
      request("PUT", function_target(name, "/code"), {{"ZipFile", base64_encode(zip)}}));
}

http::Request update_configuration_request(const FunctionSpec& spec) {
  return request("PUT", function_target(spec.name.name, "/configuration"), configuration_of(spec));
}

http::Request update_tags_request(const FunctionSpec& spec) {
  return request("POST", "/2017-03-31/tags/" + http::percent_encode(spec.name.name),
                 {{"Tags", tags_of(spec)}});
}

}  // namespace lambent::cli
