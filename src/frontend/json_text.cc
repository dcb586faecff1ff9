#include "frontend/json_text.h"

#include <nlohmann/json.hpp>

#include "domain/limits.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

// How deep brackets nest, strings left out; a malformed text may give any number.
size_t depth_of(std::string_view text) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Result<json> parse_json(std::string_view text) {
  if (depth_of(text) > limits::kJsonDepth) {
    return Error{ErrorCode::kInvalidArgument, "the JSON is nested too deep"};
  }
  json value = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return Error{ErrorCode::kInvalidArgument, "the text is no JSON"};
  return value;
}

std::string to_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace lambent::frontend
