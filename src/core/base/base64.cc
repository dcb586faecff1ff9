#include "core/base/base64.h"

#include <array>
#include <cstdint>

namespace lambent {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kNone = 255;

constexpr std::array<uint8_t, 256> kValues = [] {
  std::array<uint8_t, 256> values{};
  values.fill(kNone);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<uint8_t>(i);
  }
  return values;
}();

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view three = bytes.substr(i, 3);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (j < three.size() ? static_cast<unsigned char>(three[j]) : 0);
    }
    text += kAlphabet[bits >> 18];
    text += kAlphabet[bits >> 12 & 63];
    text += three.size() > 1 ? kAlphabet[bits >> 6 & 63] : '=';
    text += three.size() > 2 ? kAlphabet[bits & 63] : '=';
  }
  return text;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && !text.empty() && text.back() == '=') {
    text.remove_suffix(1);
    ++padding;
  }
  const auto value_at = [text](size_t i) -> uint32_t {
    return kValues[static_cast<unsigned char>(text[i])];
  };
  std::string bytes(text.size() / 4 * 3 + (3 - padding) % 3, '\0');
  // kNone has the top bit, which no value has.
  uint32_t seen = 0;
  size_t out = 0;
  size_t in = 0;
  for (; in + 4 <= text.size(); in += 4) {
    const uint32_t a = value_at(in);
    const uint32_t b = value_at(in + 1);
    const uint32_t c = value_at(in + 2);
    const uint32_t d = value_at(in + 3);
    seen |= a | b | c | d;
    const uint32_t bits = a << 18 | b << 12 | c << 6 | d;
    bytes[out++] = static_cast<char>(bits >> 16);
    bytes[out++] = static_cast<char>(bits >> 8);
    bytes[out++] = static_cast<char>(bits);
  }
  uint32_t bits = 0;
  for (; in < text.size(); ++in) {
    seen |= value_at(in);
    bits = bits << 6 | value_at(in);
  }
  if ((seen & 0x80) != 0) return std::nullopt;
  // What a padded end leaves over: 4 or 2 bits, which must be zero.
  if (padding == 2) {
    if ((bits & 15) != 0) return std::nullopt;
    bytes[out++] = static_cast<char>(bits >> 4);
  } else if (padding == 1) {
    if ((bits & 3) != 0) return std::nullopt;
    bytes[out++] = static_cast<char>(bits >> 10);
    bytes[out++] = static_cast<char>(bits >> 2);
  }
  return bytes;
}

}  // namespace lambent
