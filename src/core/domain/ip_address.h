// IpAddress and IpRange: addresses of IPv4 and IPv6 as one type, and ranges of them by prefix.
// Values and pure functions, any thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace lambent {

// Sixteen bytes in network order. An address of IPv4 is its mapped one, ::ffff:a.b.c.d: the two are
// the same destination, so that no check can be passed by writing one as the other.
struct IpAddress {
  std::array<uint8_t, 16> bytes{};

  static IpAddress v4(uint32_t host_order);
  static IpAddress v6(const void* sixteen_bytes);

  bool is_v4() const;
  uint32_t as_v4() const;  // in host order; only of IPv4

  auto operator<=>(const IpAddress&) const = default;
};

// As text has it: 10.1.2.3, 2001:db8::1.
std::string to_string(const IpAddress& address);
std::optional<IpAddress> parse_ip_address(std::string_view text);

struct IpRange {
  IpAddress first;      // without bits beyond the prefix
  unsigned bits = 128;  // of all 128: those of IPv4 count from 96

  bool contains(const IpAddress& address) const;
  bool contains(const IpRange& other) const;
  bool overlaps(const IpRange& other) const;
  bool is_one_address() const { return bits == 128; }

  bool operator==(const IpRange&) const = default;
};

// "10.1.2.0/24", "fd00::/8"; an address is a range of one.
std::string to_string(const IpRange& range);
// INVALID_ARGUMENT if it is none, or has bits beyond its prefix.
Result<IpRange> parse_ip_range(std::string_view text);

}  // namespace lambent
