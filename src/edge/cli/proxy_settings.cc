#include "edge/cli/proxy_settings.h"

#include <algorithm>

#include "core/domain/ip_address.h"
#include "core/http/message.h"

namespace lambent::cli {
namespace {

// "example.org" and ".example.org": the host and what is below it.
bool is_of_domain(std::string_view host, std::string_view domain) {
  while (domain.starts_with('.')) domain.remove_prefix(1);
  while (domain.ends_with('.')) domain.remove_suffix(1);
  while (host.ends_with('.')) host.remove_suffix(1);
  if (domain.empty() || host.size() < domain.size()) return false;
  if (!http::same_name(host.substr(host.size() - domain.size()), domain)) return false;
  return host.size() == domain.size() || host[host.size() - domain.size() - 1] == '.';
}

bool is_excepted(const UrlHost& host, std::string_view entry) {
  if (entry == "*") return true;
  const auto address = parse_ip_address(host.host);
  if (!address) return is_of_domain(host.host, entry);
  if (entry.starts_with('[') && entry.ends_with(']')) entry = entry.substr(1, entry.size() - 2);
  const auto range = parse_ip_range(entry);
  return range.ok() && range->contains(*address);
}

}  // namespace

std::string proxy_for(const ProxySettings& settings, const UrlHost& host) {
  std::string_view rest = settings.except;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find_first_of(", \t"), rest.size());
    if (end > 0 && is_excepted(host, rest.substr(0, end))) return "";
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return host.scheme == "https" ? settings.https : settings.http;
}

bool resolves_names(std::string_view proxy) {
  const std::string_view scheme = proxy.substr(0, proxy.find("://"));
  return !http::same_name(scheme, "socks4") && !http::same_name(scheme, "socks5");
}

}  // namespace lambent::cli
