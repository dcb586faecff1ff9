#include "core/domain/closed_addresses.h"

#include <array>
#include <utility>
#include <vector>

namespace lambent {
namespace {

constexpr ClosedAddress kMetadataService{"the metadata service of a cloud", true};
constexpr ClosedAddress kLinkLocal{"link-local", true};
constexpr ClosedAddress kLoopback{"loopback"};
constexpr ClosedAddress kPrivate{"a private range"};
constexpr ClosedAddress kDocumentation{"for documentation"};
constexpr ClosedAddress kMulticast{"multicast"};
constexpr ClosedAddress kReserved{"reserved"};

struct ClosedRange {
  IpRange range;
  ClosedAddress closed;
};

// RFC 6890 and its updates, and what clouds answer at addresses that are none of these.
const std::vector<ClosedRange>& closed_ranges() {
  static const std::vector<ClosedRange> ranges = [] {
    constexpr std::array<std::pair<const char*, ClosedAddress>, 30> kTable = {{
        {"169.254.169.254", kMetadataService},
        {"168.63.129.16", kMetadataService},
        {"100.100.100.200", kMetadataService},
        {"192.0.0.192", kMetadataService},
        {"fd00:ec2::/32", kMetadataService},
        {"0.0.0.0/8", {"the host itself"}},
        {"127.0.0.0/8", kLoopback},
        {"10.0.0.0/8", kPrivate},
        {"172.16.0.0/12", kPrivate},
        {"192.168.0.0/16", kPrivate},
        {"100.64.0.0/10", {"a private range of providers"}},
        {"169.254.0.0/16", kLinkLocal},
        {"192.0.0.0/24", kReserved},
        {"192.0.2.0/24", kDocumentation},
        {"198.51.100.0/24", kDocumentation},
        {"203.0.113.0/24", kDocumentation},
        {"192.88.99.0/24", kReserved},
        {"198.18.0.0/15", {"for benchmarks"}},
        {"224.0.0.0/4", kMulticast},
        {"240.0.0.0/4", kReserved},
        {"::1", kLoopback},
        {"fc00::/7", kPrivate},
        {"fe80::/10", kLinkLocal},
        {"fec0::/10", kPrivate},
        {"ff00::/8", kMulticast},
        {"2001::/23", kReserved},
        {"2001:db8::/32", kDocumentation},
        {"2002::/16", {"a way to IPv4 (6to4)"}},
        {"3fff::/20", kDocumentation},
        {"64:ff9b:1::/48", {"a way to IPv4 (NAT64)"}},
    }};
    std::vector<ClosedRange> made;
    for (const auto& [text, closed] : kTable) made.push_back({*parse_ip_range(text), closed});
    return made;
  }();
  return ranges;
}

const IpRange& nat64() {
  static const IpRange range = *parse_ip_range("64:ff9b::/96");
  return range;
}

// Of IPv6 only this is in use by hosts of the internet.
const IpRange& unicast_v6() {
  static const IpRange range = *parse_ip_range("2000::/3");
  return range;
}

}  // namespace

std::optional<ClosedAddress> closed_address(const IpAddress& address) {
  if (nat64().contains(address)) {
    uint32_t inner = 0;
    for (unsigned i = 12; i < 16; ++i) inner = inner << 8 | address.bytes[i];
    return closed_address(IpAddress::v4(inner));
  }
  for (const ClosedRange& each : closed_ranges()) {
    if (each.range.contains(address)) return each.closed;
  }
  if (!address.is_v4() && !unicast_v6().contains(address)) return kReserved;
  return std::nullopt;
}

std::optional<ClosedAddress> closed_within(const IpRange& range) {
  if (auto first = closed_address(range.first)) return first;
  for (const ClosedRange& each : closed_ranges()) {
    if (each.range.overlaps(range)) return each.closed;
  }
  return std::nullopt;
}

}  // namespace lambent
