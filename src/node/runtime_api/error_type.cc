#include "node/runtime_api/error_type.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/log.h"

namespace lambent::runtime_api {
namespace {

constexpr size_t kLongestType = 256;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool has_lambda_form(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos || text.size() > kLongestType) return false;
  const std::string_view family = text.substr(0, dot);
  const std::string_view name = text.substr(dot + 1);
  return (family == "Runtime" || family == "Function") && name.size() >= 2 && name[0] >= 'A' &&
         name[0] <= 'Z' && std::all_of(name.begin(), name.end(), is_letter);
}

}  // namespace

std::string error_type_of(std::string_view header, std::string_view body,
                          std::string_view fallback) {
  if (has_lambda_form(header)) return std::string(header);
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (json.is_object()) {
    const auto found = json.find("errorType");
    if (found != json.end() && found->is_string()) {
      const auto& type = found->get_ref<const std::string&>();
      const bool printable = std::none_of(type.begin(), type.end(),
                                          [](unsigned char c) { return c < ' ' || c == 127; });
      if (!type.empty() && type.size() <= kLongestType && printable) return type;
    }
  }
  return std::string(fallback);
}

std::string error_message_of(std::string_view body) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (json.is_object()) {
    const auto found = json.find("errorMessage");
    if (found != json.end() && found->is_string()) return found->get<std::string>();
  }
  return std::string(body);
}

std::string error_json(std::string_view error_type, std::string_view message) {
  return "{\"errorMessage\":\"" + json_escape(message) + "\",\"errorType\":\"" +
         json_escape(error_type) + "\"}";
}

}  // namespace lambent::runtime_api
