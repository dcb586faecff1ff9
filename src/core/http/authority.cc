#include "core/http/authority.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>

namespace lambent::http {
namespace {

constexpr size_t kLongestName = 253;

// RFC 3986 allows an empty port ("host:"), which means the same as none.
bool read_port(std::string_view text, std::optional<uint16_t>& port) {
  if (text.empty()) return true;
  uint16_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) return false;
  port = number;
  return true;
}

bool read_ipv6(const std::string& text, Authority& authority) {
  in6_addr address{};
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return false;
  char written[INET6_ADDRSTRLEN];
  authority.kind = Authority::Kind::kIpv6;
  authority.host = inet_ntop(AF_INET6, &address, written, sizeof written);
  return true;
}

bool read_ipv4(const std::string& text, Authority& authority) {
  // Most are names, and told at once.
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return false;
  char written[INET_ADDRSTRLEN];
  authority.kind = Authority::Kind::kIpv4;
  authority.host = inet_ntop(AF_INET, &address, written, sizeof written);
  return true;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

bool read_name(std::string text, Authority& authority) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (text.ends_with('.')) text.pop_back();
  if (text.empty() || text.size() > kLongestName) return false;
  if (!std::all_of(text.begin(), text.end(), is_name_character)) return false;
  authority.kind = Authority::Kind::kName;
  authority.host = std::move(text);
  return true;
}

}  // namespace

std::optional<Authority> parse_authority(std::string_view text) {
  Authority authority;
  if (text.starts_with('[')) {
    const size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return std::nullopt;
    const std::string_view rest = text.substr(bracket + 1);
    if (!rest.empty() && (rest[0] != ':' || !read_port(rest.substr(1), authority.port))) {
      return std::nullopt;
    }
    if (!read_ipv6(std::string(text.substr(1, bracket - 1)), authority)) return std::nullopt;
    return authority;
  }
  const size_t colon = std::min(text.find(':'), text.size());
  if (colon < text.size() && !read_port(text.substr(colon + 1), authority.port)) {
    return std::nullopt;
  }
  const std::string host(text.substr(0, colon));
  if (host.find('\0') != std::string::npos) return std::nullopt;
  if (!read_ipv4(host, authority) && !read_name(host, authority)) return std::nullopt;
  return authority;
}

bool is_loopback(const Authority& authority) {
  switch (authority.kind) {
    case Authority::Kind::kName:
      return authority.host == "localhost";
    case Authority::Kind::kIpv4:
      return authority.host.starts_with("127.");
    case Authority::Kind::kIpv6:
      return authority.host == "::1" || authority.host.starts_with("::ffff:127.");
  }
  return false;
}

std::string to_string(const Authority& authority) {
  std::string text =
      authority.kind == Authority::Kind::kIpv6 ? "[" + authority.host + "]" : authority.host;
  if (authority.port) text += ":" + std::to_string(*authority.port);
  return text;
}

}  // namespace lambent::http
