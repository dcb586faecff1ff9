#include "edge/cli/aws_credentials.h"

#include <algorithm>

namespace lambent::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

std::string lower(std::string_view text) {
  std::string made(text);
  std::transform(made.begin(), made.end(), made.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return made;
}

}  // namespace

std::map<std::string, std::string> aws_section(std::string_view text, std::string_view section) {
  std::map<std::string, std::string> settings;
  bool is_here = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = trimmed(whole);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      is_here = line.ends_with(']') && trimmed(line.substr(1, line.size() - 2)) == section;
      continue;
    }
    const size_t equals = line.find('=');
    // What is indented belongs to the setting above it.
    if (!is_here || equals == std::string_view::npos || whole.front() == ' ') continue;
    settings[lower(trimmed(line.substr(0, equals)))] = trimmed(line.substr(equals + 1));
  }
  return settings;
}

}  // namespace lambent::cli
