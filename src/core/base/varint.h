// Whole numbers in as few bytes as they need, seven bits a byte, least first. Pure; used by writers
// and readers of compact bytes.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace lambent {

// The most bytes that one number takes.
constexpr size_t kLongestVarint = 10;

// Writes at `at`, where kLongestVarint bytes are free; returns the byte after it. All of them may
// be written. Without a loop where eight bytes are enough, for its end cannot be foreseen: the
// number's groups of seven bits are moved apart, half by half, until each has a byte of its own.
inline uint8_t* put_varint(uint8_t* at, uint64_t number) {
  static_assert(std::endian::native == std::endian::little);
  if (number >= uint64_t{1} << 56) {
    for (; number >= 0x80; number >>= 7) *at++ = static_cast<uint8_t>(number | 0x80);
    *at++ = static_cast<uint8_t>(number);
    return at;
  }
  const int last = (std::bit_width(number | 1) - 1) / 7;
  uint64_t bytes = (number & 0x000000000fffffff) | (number & 0x00fffffff0000000) << 4;
  bytes = (bytes & 0x00003fff00003fff) | (bytes & 0x0fffc0000fffc000) << 2;
  bytes = (bytes & 0x007f007f007f007f) | (bytes & 0x3f803f803f803f80) << 1;
  // All but the last say that another one follows.
  bytes |= 0x8080808080808080 & ((uint64_t{1} << 8 * last) - 1);
  std::memcpy(at, &bytes, sizeof(bytes));
  return at + last + 1;
}

inline void append_varint(std::string& out, uint64_t number) {
  uint8_t bytes[kLongestVarint];
  out.append(reinterpret_cast<const char*>(bytes), put_varint(bytes, number) - bytes);
}

// Takes a number off the front of `bytes`. False, with `bytes` as it was, if there is none: the
// bytes end within it, or it is longer than 64 bits.
inline bool take_varint(std::string_view& bytes, uint64_t& number) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size() && i < kLongestVarint; ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (i == kLongestVarint - 1 && byte > 1) return false;
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      number = value;
      bytes.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

// Small negative numbers become small ones: 0, -1, 1, -2 are 0, 1, 2, 3.
constexpr uint64_t zigzag(int64_t number) {
  return (static_cast<uint64_t>(number) << 1) ^ static_cast<uint64_t>(number >> 63);
}
constexpr int64_t from_zigzag(uint64_t number) {
  return static_cast<int64_t>(number >> 1) ^ -static_cast<int64_t>(number & 1);
}

}  // namespace lambent
