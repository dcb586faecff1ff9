#include "base/ids.h"

#include <cstdio>

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
  char text[37];
  std::snprintf(text, sizeof(text), "%08x-%04x-%04x-%04x-%012llx",
                static_cast<unsigned>(id.high >> 32), static_cast<unsigned>(id.high >> 16 & 0xffff),
                static_cast<unsigned>(id.high & 0xffff), static_cast<unsigned>(id.low >> 48),
                static_cast<unsigned long long>(id.low & 0xffff'ffff'ffffULL));
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

}  // namespace lambent
