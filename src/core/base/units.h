// Bytes: an amount of memory with a type. Durations and instants are in core/base/time.h.
// A value; used by every module, on any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace lambent {

struct Bytes {
  uint64_t count = 0;

  constexpr Bytes() = default;
  constexpr explicit Bytes(uint64_t bytes) : count(bytes) {}
  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes operator+(Bytes other) const { return Bytes(count + other.count); }
  // Saturates at zero: there is no negative amount of memory.
  constexpr Bytes operator-(Bytes other) const {
    return Bytes(count > other.count ? count - other.count : 0);
  }
  constexpr Bytes operator*(uint64_t factor) const { return Bytes(count * factor); }
  constexpr Bytes& operator+=(Bytes other) { return *this = *this + other; }
  constexpr Bytes& operator-=(Bytes other) { return *this = *this - other; }

  static constexpr Bytes kib(uint64_t n) { return Bytes(n << 10); }
  static constexpr Bytes mib(uint64_t n) { return Bytes(n << 20); }
  static constexpr Bytes gib(uint64_t n) { return Bytes(n << 30); }
};

// "1.5 GiB", for people.
std::string to_string(Bytes bytes);
// Reads "512", "512M", "512MiB", "1.5G" (powers of 1024). INVALID_ARGUMENT otherwise.
Result<Bytes> parse_bytes(std::string_view text);

}  // namespace lambent
