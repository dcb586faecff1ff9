#include "core/domain/command_line.h"

#include <algorithm>

#include "core/domain/limits.h"

namespace lambent {
namespace {

Error invalid(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "the command " + what};
}

bool is_control(unsigned char c) { return c < ' ' || c == 127; }

}  // namespace

Result<std::vector<std::string>> command_words(std::string_view text) {
  if (std::any_of(text.begin(), text.end(), is_control)) {
    return invalid("may have no control characters");
  }
  std::vector<std::string> words;
  bool in_word = false;
  bool in_quotes = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == ' ' && !in_quotes) {
      in_word = false;
      continue;
    }
    if (!in_word) {
      if (words.size() == limits::kCommandWords) {
        return invalid("has more than " + std::to_string(limits::kCommandWords) + " words");
      }
      words.emplace_back();
      in_word = true;
    }
    if (c == '"') {
      in_quotes = !in_quotes;
      continue;
    }
    if (c == '\\') {
      if (++i == text.size()) return invalid("ends with a backslash");
      c = text[i];
    }
    words.back() += c;
  }
  if (in_quotes) return invalid("has a quote that does not end");
  return words;
}

std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    const bool needs_quotes = word.empty() || word.find(' ') != std::string::npos;
    if (needs_quotes) text += '"';
    for (const char c : word) {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
    if (needs_quotes) text += '"';
  }
  return text;
}

}  // namespace lambent
