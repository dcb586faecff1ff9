#include "core/domain/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace lambent {
namespace {

constexpr unsigned kMappedBits = 96;
constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

IpAddress masked(IpAddress address, unsigned bits) {
  for (unsigned i = 0; i < address.bytes.size(); ++i) {
    const unsigned kept = bits > i * 8 ? std::min(bits - i * 8, 8U) : 0;
    address.bytes[i] &= static_cast<uint8_t>(0xff00U >> kept);
  }
  return address;
}

Error invalid(std::string_view text, const char* why) {
  return Error{ErrorCode::kInvalidArgument, "'" + std::string(text) + "' " + why};
}

}  // namespace

IpAddress IpAddress::v4(uint32_t host_order) {
  IpAddress address;
  std::ranges::copy(kMapped, address.bytes.begin());
  for (unsigned i = 0; i < 4; ++i) {
    address.bytes[12 + i] = static_cast<uint8_t>(host_order >> (24 - 8 * i));
  }
  return address;
}

IpAddress IpAddress::v6(const void* sixteen_bytes) {
  IpAddress address;
  std::memcpy(address.bytes.data(), sixteen_bytes, address.bytes.size());
  return address;
}

bool IpAddress::is_v4() const { return std::equal(kMapped.begin(), kMapped.end(), bytes.begin()); }

uint32_t IpAddress::as_v4() const {
  uint32_t number = 0;
  for (unsigned i = 12; i < 16; ++i) number = number << 8 | bytes[i];
  return number;
}

std::string to_string(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.is_v4()) {
    inet_ntop(AF_INET, address.bytes.data() + 12, text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, address.bytes.data(), text, sizeof(text));
  }
  return text;
}

std::optional<IpAddress> parse_ip_address(std::string_view text) {
  const std::string copy(text);
  if (copy.find('\0') != std::string::npos) return std::nullopt;
  in_addr four{};
  if (inet_pton(AF_INET, copy.c_str(), &four) == 1) return IpAddress::v4(ntohl(four.s_addr));
  in6_addr six{};
  if (inet_pton(AF_INET6, copy.c_str(), &six) == 1) return IpAddress::v6(&six);
  return std::nullopt;
}

bool IpRange::contains(const IpAddress& address) const { return masked(address, bits) == first; }

bool IpRange::contains(const IpRange& other) const {
  return other.bits >= bits && contains(other.first);
}

bool IpRange::overlaps(const IpRange& other) const {
  return contains(other) || other.contains(*this);
}

std::string to_string(const IpRange& range) {
  if (range.is_one_address()) return to_string(range.first);
  const bool four = range.first.is_v4() && range.bits >= kMappedBits;
  return to_string(range.first) + "/" + std::to_string(range.bits - (four ? kMappedBits : 0));
}

Result<IpRange> parse_ip_range(std::string_view text) {
  const size_t slash = text.find('/');
  const auto address = parse_ip_address(text.substr(0, slash));
  if (!address) return invalid(text, "is not an IP address or range such as 10.1.2.0/24");
  IpRange range{*address, 128};
  if (slash == std::string_view::npos) return range;
  const std::string_view digits = text.substr(slash + 1);
  const unsigned offset = address->is_v4() ? kMappedBits : 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), range.bits);
  if (error != std::errc() || end != digits.data() + digits.size() || range.bits > 128 - offset) {
    return invalid(text, "has a prefix that is too long or no number");
  }
  range.bits += offset;
  if (masked(*address, range.bits) != *address) {
    return invalid(text, "has address bits beyond its prefix");
  }
  return range;
}

}  // namespace lambent
