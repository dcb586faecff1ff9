// Plain text of requests, read piece by piece. Free functions; any thread.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace lambent::frontend {

// Without the spaces and tabs on both sides.
inline std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

// The number that all of the text is; nothing for any other text, an empty one, and a number that
// the type does not hold.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace lambent::frontend
