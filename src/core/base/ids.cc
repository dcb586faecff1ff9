#include "core/base/ids.h"

#include <charconv>

namespace lambent {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_dash_position(size_t position) {
  return position == 8 || position == 13 || position == 18 || position == 23;
}

}  // namespace

std::string to_string(InvocationId id) {
  // Without printf: several times for each invocation.
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(36, '-');
  size_t position = 0;
  for (const uint64_t word : {id.high, id.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) {
      if (is_dash_position(position)) ++position;
      text[position++] = kDigits[word >> shift & 15];
    }
  }
  return text;
}

std::optional<InvocationId> invocation_id_from_string(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  uint64_t words[2] = {0, 0};
  int digits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_dash_position(i)) {
      if (text[i] != '-') return std::nullopt;
      continue;
    }
    const int digit = hex_digit(text[i]);
    if (digit < 0) return std::nullopt;
    uint64_t& word = words[digits / 16];
    word = word << 4 | static_cast<uint64_t>(digit);
    ++digits;
  }
  return InvocationId{words[0], words[1]};
}

std::string to_string(ObjectId id) { return to_string(id.maker) + "." + std::to_string(id.number); }

std::optional<ObjectId> object_id_from_string(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto maker = invocation_id_from_string(text.substr(0, dot));
  const std::string_view digits = text.substr(dot + 1);
  if (!maker || digits.empty() || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
  uint32_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return ObjectId{*maker, number};
}

}  // namespace lambent
