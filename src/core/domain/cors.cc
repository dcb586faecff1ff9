#include "core/domain/cors.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json_survey.h"
#include "core/base/json_text.h"
#include "core/domain/limits.h"

namespace lambent {
namespace {

using Json = nlohmann::ordered_json;

Error invalid(const std::string& what) { return {ErrorCode::kInvalidArgument, "cors: " + what}; }

bool is_token_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_character);
}

// As browsers write it: a scheme, a host in lower case, perhaps a port, and nothing after.
bool is_origin(std::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme == 0 || scheme == std::string_view::npos) return false;
  const std::string_view place = text.substr(scheme + 3);
  const auto is_part = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '.' || c == ':' ||
           c == '[' || c == ']' || c == '_';
  };
  return !place.empty() && std::ranges::all_of(place, is_part) &&
         std::ranges::all_of(text.substr(0, scheme), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' ||
                  c == '.';
         });
}

bool has(const std::vector<std::string>& list, std::string_view text) {
  return std::ranges::find(list, text) != list.end();
}

Result<void> read_list(const std::string& key, const Json& value, std::vector<std::string>& to) {
  if (!value.is_array()) return invalid(key + " is a list of texts");
  if (value.size() > limits::kCorsEntries) {
    return invalid(key + " has more than " + std::to_string(limits::kCorsEntries) + " entries");
  }
  for (const Json& each : value) {
    if (!each.is_string()) return invalid(key + " is a list of texts");
    to.push_back(each.get<std::string>());
    if (to.back().size() > limits::kCorsEntryLength) {
      return invalid("an entry of " + key + " is longer than " +
                     std::to_string(limits::kCorsEntryLength) + " bytes");
    }
  }
  return {};
}

Result<void> read(const std::string& key, const Json& value, Cors& cors) {
  if (key == "allow_origins") return read_list(key, value, cors.allow_origins);
  if (key == "allow_methods") return read_list(key, value, cors.allow_methods);
  if (key == "allow_headers") return read_list(key, value, cors.allow_headers);
  if (key == "expose_headers") return read_list(key, value, cors.expose_headers);
  if (key == "allow_credentials") {
    if (!value.is_boolean()) return invalid(key + " is true or false");
    cors.allow_credentials = value.get<bool>();
    return {};
  }
  if (key == "max_age_s") {
    if (!value.is_number()) return invalid(key + " is a number of seconds");
    cors.max_age_s = value.get<double>();
    return {};
  }
  return invalid("there is no " + key +
                 "; there are allow_origins, allow_methods, allow_headers, expose_headers, "
                 "allow_credentials and max_age_s");
}

Result<void> validate(const Cors& cors) {
  for (const std::string& origin : cors.allow_origins) {
    if (origin != "*" && !is_origin(origin)) {
      return invalid("allow_origins has '" + origin +
                     "'; an origin is written https://app.example.org, in lower case, without a "
                     "path, or it is *");
    }
  }
  for (const auto* list : {&cors.allow_methods, &cors.allow_headers, &cors.expose_headers}) {
    const auto wrong = std::ranges::find_if_not(*list, is_token);
    if (wrong != list->end()) {
      return invalid("'" + *wrong + "' is neither a method nor the name of a header, nor *");
    }
  }
  if (cors.allow_credentials && has(cors.allow_origins, "*")) {
    return invalid("allow_credentials needs origins by name: with * browsers refuse the answers");
  }
  if (!(cors.max_age_s >= 0 && cors.max_age_s <= limits::kMostCorsAge)) {
    return invalid("max_age_s is 0 to 86400");
  }
  return {};
}

}  // namespace

Result<Cors> parse_cors(std::string_view text) {
  RETURN_IF_ERROR(survey_json(text, {.subject = "cors"}));
  const Json object = Json::parse(text, nullptr, false);
  if (!object.is_object()) return invalid("it is a table");
  Cors cors;
  for (const auto& [key, value] : object.items()) RETURN_IF_ERROR(read(key, value, cors));
  RETURN_IF_ERROR(validate(cors));
  return cors;
}

std::string text_of(const Cors& cors) {
  Json object = Json::object();
  const auto put = [&](const char* key, const std::vector<std::string>& list) {
    if (!list.empty()) object[key] = list;
  };
  if (cors.allow_credentials) object["allow_credentials"] = true;
  put("allow_headers", cors.allow_headers);
  put("allow_methods", cors.allow_methods);
  put("allow_origins", cors.allow_origins);
  put("expose_headers", cors.expose_headers);
  if (cors.max_age_s > 0) object["max_age_s"] = cors.max_age_s;
  return json_text(object);
}

bool allows_origin(const Cors& cors, std::string_view origin) {
  return has(cors.allow_origins, "*") || has(cors.allow_origins, origin);
}

bool allows_method(const Cors& cors, std::string_view method) {
  return has(cors.allow_methods, "*") || has(cors.allow_methods, method);
}

}  // namespace lambent
