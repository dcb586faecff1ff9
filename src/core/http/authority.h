// Authority: the HOST[:PORT] of a URL, a Host header or an Origin, as a value that compares. Free
// functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lambent::http {

struct Authority {
  enum class Kind { kName, kIpv4, kIpv6 };
  Kind kind = Kind::kName;
  // A name in lower case without a dot at its end; an address as inet_ntop writes it, without
  // brackets. Never empty.
  std::string host;
  std::optional<uint16_t> port;

  bool operator==(const Authority&) const = default;
};

// Nothing if the text is not a host with or without a port: user names, spaces, zones of addresses
// and names with characters outside [A-Za-z0-9._-] are none.
std::optional<Authority> parse_authority(std::string_view text);
// localhost, 127.0.0.0/8 and ::1, the latter two also as IPv4-mapped addresses.
bool is_loopback(const Authority& authority);
// HOST, or HOST:PORT; an IPv6 address in brackets.
std::string to_string(const Authority& authority);

}  // namespace lambent::http
