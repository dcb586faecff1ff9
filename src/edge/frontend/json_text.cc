#include "edge/frontend/json_text.h"

#include <nlohmann/json.hpp>

#include "core/base/json_survey.h"
#include "core/domain/limits.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr size_t kLongString = 8 * 1024;

size_t after_spaces(std::string_view text, size_t from) {
  const size_t found = text.find_first_not_of(" \t\r\n", from);
  return found == std::string_view::npos ? text.size() : found;
}

}  // namespace

CutJson cut_long_string(std::string_view text, std::string_view key) {
  const std::string quoted = '"' + std::string(key) + '"';
  for (size_t at = text.find(quoted); at != std::string_view::npos;
       at = text.find(quoted, at + quoted.size())) {
    // In a valid text a quote after one of these, with a bare word and a quote behind it, can only
    // begin a string: within a string it would be escaped, at its end no word would follow.
    if (at == 0 || std::string_view("{, \t\r\n").find(text[at - 1]) == std::string_view::npos) {
      continue;
    }
    const size_t colon = after_spaces(text, at + quoted.size());
    if (colon == text.size() || text[colon] != ':') continue;
    const size_t begin = after_spaces(text, colon + 1) + 1;
    if (begin > text.size() || text[begin - 1] != '"') continue;
    const size_t end = text.find('"', begin);
    if (end == std::string_view::npos) break;
    const std::string_view value = text.substr(begin, end - begin);
    if (value.size() <= kLongString || value.find('\\') != std::string_view::npos) continue;
    return {
        std::string(text.substr(0, begin)) + std::string(kCutMark) + std::string(text.substr(end)),
        value};
  }
  return {std::string(text), {}};
}

Result<json> parse_json(std::string_view text) {
  if (!json_nests_at_most(text, limits::kJsonDepth)) {
    return Error{ErrorCode::kInvalidArgument, "the JSON is nested too deep"};
  }
  json value = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return Error{ErrorCode::kInvalidArgument, "the text is no JSON"};
  return value;
}

}  // namespace lambent::frontend
