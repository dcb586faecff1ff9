#include "gpu/bundle/source_text.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace lambent::bundle {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)); }

size_t end_of_comment(std::string_view text, size_t at) {
  if (starts(text, at, "//")) {
    size_t end = text.find('\n', at);
    while (end != std::string_view::npos && text[end - 1] == '\\') end = text.find('\n', end + 1);
    return std::min(end, text.size());
  }
  if (!starts(text, at, "/*")) return at;
  const size_t end = text.find("*/", at + 2);
  return end == std::string_view::npos ? text.size() : end + 2;
}

size_t end_of_literal(std::string_view text, size_t at) {
  const char quote = text[at++];
  while (at < text.size() && text[at] != quote && text[at] != '\n') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

size_t end_of_raw_string(std::string_view text, size_t at) {
  const size_t open = text.find('(', at);
  if (open == std::string_view::npos || open - at > 17) return end_of_literal(text, at);
  const std::string close = ")" + std::string(text.substr(at + 1, open - at - 1)) + "\"";
  const size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

size_t end_of_word(std::string_view text, size_t at) {
  const bool number = std::isdigit(static_cast<unsigned char>(text[at]));
  while (at < text.size()) {
    const bool separator =
        number && text[at] == '\'' && at + 1 < text.size() && in_word(text[at + 1]);
    if (!in_word(text[at]) && !separator) break;
    ++at;
  }
  return at;
}

size_t skip_blanks(std::string_view text, size_t at) {
  while (at < text.size()) {
    const size_t end = end_of_comment(text, at);
    if (end != at) {
      at = end;
    } else if (is_space(text[at])) {
      ++at;
    } else {
      break;
    }
  }
  return at;
}

size_t end_of_brackets(std::string_view text, size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (const size_t end = end_of_comment(text, at); end != at) {
      at = end;
    } else if (c == '"' || c == '\'') {
      at = end_of_literal(text, at);
    } else {
      ++at;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if ((c == ')' || c == ']' || c == '}') && --depth == 0) break;
      if (c == ';') break;
    }
  }
  return at;
}

bool is_continued(std::string_view text, size_t at) {
  if (at > 0 && text[at - 1] == '\r') --at;
  return at > 0 && text[at - 1] == '\\';
}

bool starts(std::string_view text, size_t at, std::string_view with) {
  return text.substr(at).starts_with(with);
}

}  // namespace lambent::bundle
