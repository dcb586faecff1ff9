#include "edge/frontend/request_guard.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "edge/frontend/function_target.h"

namespace lambent::frontend {
namespace {

constexpr size_t kMostShown = 80;  // bytes of a foreign header in an error

Error refused(std::string message) { return {ErrorCode::kPermissionDenied, std::move(message)}; }

std::string quoted(std::string_view text) {
  return text.size() <= kMostShown ? "'" + std::string(text) + "'"
                                   : "'" + std::string(text.substr(0, kMostShown)) + "...'";
}

// Whether both name one place; without a port the scheme's is meant.
bool same_place(http::Authority a, http::Authority b, uint16_t scheme_port) {
  if (!a.port) a.port = scheme_port;
  if (!b.port) b.port = scheme_port;
  return a == b;
}

// An Origin is a scheme and an authority, or "null".
bool is_own_origin(std::string_view origin, const std::optional<http::Authority>& host) {
  if (!host) return false;
  for (const auto& [scheme, port] :
       {std::pair<std::string_view, uint16_t>{"http://", 80}, {"https://", 443}}) {
    if (!origin.starts_with(scheme)) continue;
    const auto authority = http::parse_authority(origin.substr(scheme.size()));
    return authority && same_place(*authority, *host, port);
  }
  return false;
}

// Whether a browser opens this as a page of its own, after a link or a redirect: nothing of the
// answer can be read by the page where the link was.
bool is_navigation(const http::Request& request) {
  return (request.method == "GET" || request.method == "HEAD") &&
         request.headers.get("sec-fetch-mode") == "navigate" &&
         request.headers.get("sec-fetch-dest") == "document" && !request.headers.contains("origin");
}

// Of a target such as "http://HOST/path"; nothing if it has another form.
std::optional<std::string_view> authority_of(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!http::same_name(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    return target.substr(0, std::min(target.find_first_of("/?#"), target.size()));
  }
  return std::nullopt;
}

bool is_wildcard(const http::Authority& listener) {
  return listener.host == "0.0.0.0" || listener.host == "::";
}

}  // namespace

RequestGuard::RequestGuard(HostPolicy policy) : policy_(std::move(policy)) {}

bool RequestGuard::answers_to(const http::Authority& host, uint16_t scheme_port) const {
  if (http::is_loopback(host)) return true;
  if (policy_.listener && host.kind != http::Authority::Kind::kName &&
      (is_wildcard(*policy_.listener) || host.host == policy_.listener->host)) {
    return true;
  }
  if (!function_label(host.host, policy_.function_domain).empty()) return true;
  return std::any_of(policy_.names.begin(), policy_.names.end(), [&](const auto& name) {
    return host.host == name.host && (!name.port || same_place(host, name, scheme_port));
  });
}

Result<void> RequestGuard::check(const http::Request& request) const {
  RETURN_IF_ERROR(check_host(request));
  return check_page(request);
}

Result<void> RequestGuard::check_host(const http::Request& request) const {
  const std::string_view host_text = request.headers.get("host");
  const auto host = http::parse_authority(host_text);
  const bool encrypted = request.peer.transport == http::Transport::kTls;
  if (request.peer.transport != http::Transport::kUnix &&
      (!host || !answers_to(*host, encrypted ? 443 : 80))) {
    return refused("this worker does not answer to the host " + quoted(host_text) +
                   "; if that is a name of this machine, start it with --host");
  }
  // Whichever of the two counted, another program on the way may have looked at the other.
  if (const auto named = authority_of(request.target)) {
    const auto authority = http::parse_authority(*named);
    const uint16_t port = encrypted ? 443 : 80;
    if (!authority || !host || !same_place(*authority, *host, port)) {
      return refused("the request's target names another host than Host does");
    }
  }
  return {};
}

Result<void> RequestGuard::check_page(const http::Request& request) const {
  const auto host = http::parse_authority(request.headers.get("host"));
  // Links to the pages of a function may stand anywhere.
  const bool is_page_of_function = host &&
                                   !function_label(host->host, policy_.function_domain).empty() &&
                                   is_navigation(request);
  for (const auto& [name, value] : request.headers.fields()) {
    if (http::same_name(name, "origin") && !is_own_origin(value, host)) {
      return refused("web pages of other origins (here " + quoted(value) +
                     ") may not use this API");
    }
    if (http::same_name(name, "sec-fetch-site") && value != "same-origin" && value != "none" &&
        !is_page_of_function) {
      return refused("web pages of other sites may not use this (Sec-Fetch-Site is " +
                     quoted(value) + ")");
    }
  }
  return {};
}

}  // namespace lambent::frontend
