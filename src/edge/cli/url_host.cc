#include "edge/cli/url_host.h"

#include <algorithm>

#include "core/domain/ip_address.h"

namespace lambent::cli {
namespace {

bool is_host_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

// What curl and the C library would read as an address although it has not the form of one, such as
// 2130706433, 0x7f.1 and 127.0.0.1. with a dot behind it. A look at the name and the connection
// could then mean different hosts.
bool is_odd_address(std::string_view host) {
  if (parse_ip_address(host)) return false;
  if (host.ends_with('.')) host.remove_suffix(1);
  std::string_view last = host.substr(host.rfind('.') + 1);
  const bool is_hexadecimal = last.starts_with("0x") || last.starts_with("0X");
  if (is_hexadecimal) last.remove_prefix(2);
  return (is_hexadecimal || !last.empty()) &&
         last.find_first_not_of(is_hexadecimal ? "0123456789abcdefABCDEF" : "0123456789") ==
             std::string_view::npos;
}

// Without the URL, which may have a password.
Error bad_host() {
  return {ErrorCode::kInvalidArgument, "the URL has no host that is plain to read"};
}

}  // namespace

Result<UrlHost> host_of_url(std::string_view url) {
  UrlHost host;
  std::string_view rest = url;
  for (const char* scheme : {"https", "http"}) {
    const std::string beginning = std::string(scheme) + "://";
    if (!rest.starts_with(beginning)) continue;
    host.scheme = scheme;
    rest.remove_prefix(beginning.size());
    break;
  }
  if (host.scheme.empty()) return bad_host();
  rest = rest.substr(0, rest.find_first_of("/?#"));
  if (rest.find('\\') != std::string_view::npos) return bad_host();
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    host.user = rest.substr(0, at + 1);
    rest.remove_prefix(at + 1);
  }
  std::string_view port;
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) return bad_host();
    host.host = rest.substr(1, end - 1);
    if (!parse_ip_address(host.host)) return bad_host();
    port = rest.substr(end + 1);
  } else {
    const size_t colon = std::min(rest.find(':'), rest.size());
    host.host = rest.substr(0, colon);
    port = rest.substr(colon);
    if (host.host.empty() || !std::ranges::all_of(host.host, is_host_letter)) return bad_host();
    if (is_odd_address(host.host)) return bad_host();
  }
  host.port = host.scheme == "https" ? "443" : "80";
  if (port.empty() || port == ":") return host;
  if (!port.starts_with(':') || port.size() > 6) return bad_host();
  port.remove_prefix(1);
  if (!std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; })) return bad_host();
  host.port = port;
  return host;
}

}  // namespace lambent::cli
