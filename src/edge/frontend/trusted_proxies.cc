#include "edge/frontend/trusted_proxies.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "core/http/authority.h"
#include "edge/frontend/plain_text.h"

namespace lambent::frontend {
namespace {

// The elements of all fields of that name, the nearest proxy's first.
std::vector<std::string_view> nearest_first(const http::Headers& headers, std::string_view name) {
  std::vector<std::string_view> elements;
  for (const auto& [each, value] : headers.fields()) {
    if (!http::same_name(each, name)) continue;
    std::string_view rest = value;
    while (true) {
      const size_t comma = rest.find(',');
      elements.push_back(trimmed(rest.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  std::ranges::reverse(elements);
  return elements;
}

std::string_view nearest(const http::Headers& headers, std::string_view name) {
  const auto elements = nearest_first(headers, name);
  return elements.empty() ? std::string_view() : elements.front();
}

// Some proxies add the port, and addresses of IPv6 stand with and without brackets.
std::optional<IpAddress> address_in(std::string_view text) {
  if (auto address = parse_ip_address(text)) return address;
  const auto authority = http::parse_authority(text);
  if (!authority || authority->kind == http::Authority::Kind::kName) return std::nullopt;
  return parse_ip_address(authority->host);
}

std::string address_of_client(const http::Request& request, const TrustedProxies& proxies) {
  std::optional<IpAddress> farthest;
  for (const std::string_view text : nearest_first(request.headers, "X-Forwarded-For")) {
    const auto address = address_in(text);
    if (!address) break;
    farthest = address;
    if (!proxies.trusts(*address)) break;
  }
  if (!farthest) return request.peer.address;
  const std::string text = to_string(*farthest);
  return (farthest->is_v4() ? text : "[" + text + "]") + ":0";
}

bool is_path(std::string_view text) {
  return text.starts_with('/') && text.find_first_of(" \t\"<>\\") == std::string_view::npos;
}

}  // namespace

Result<TrustedProxies> TrustedProxies::parse(const std::vector<std::string>& texts) {
  TrustedProxies proxies;
  for (const std::string& text : texts) {
    if (text == "unix") {
      proxies.over_unix_ = true;
      continue;
    }
    ASSIGN_OR_RETURN(const IpRange range, parse_ip_range(text));
    proxies.ranges_.push_back(range);
  }
  return proxies;
}

bool TrustedProxies::trusts(const IpAddress& address) const {
  return std::ranges::any_of(ranges_,
                             [&](const IpRange& range) { return range.contains(address); });
}

bool TrustedProxies::trusts(const http::Peer& peer) const {
  if (peer.transport == http::Transport::kUnix) return over_unix_;
  if (ranges_.empty()) return false;
  const auto address = address_in(peer.address);
  return address && trusts(*address);
}

ClientView client_view(const http::Request& request, const std::string& prefix,
                       const TrustedProxies& proxies) {
  ClientView view{
      .address = request.peer.address,
      .protocol = request.peer.transport == http::Transport::kTls ? "https" : "http",
      .host = std::string(request.headers.get("Host")),
      .prefix = prefix,
  };
  if (!proxies.trusts(request.peer)) return view;
  view.address = address_of_client(request, proxies);
  const std::string_view protocol = nearest(request.headers, "X-Forwarded-Proto");
  for (const char* known : {"http", "https"}) {
    if (http::same_name(protocol, known)) view.protocol = known;
  }
  const std::string_view host = nearest(request.headers, "X-Forwarded-Host");
  if (http::parse_authority(host)) view.host = host;
  std::string_view path = nearest(request.headers, "X-Forwarded-Prefix");
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (is_path(path)) view.prefix = path == "/" ? std::string() : std::string(path);
  return view;
}

}  // namespace lambent::frontend
