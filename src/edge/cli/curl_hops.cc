#include "edge/cli/curl_hops.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "core/domain/ip_address.h"
#include "core/domain/network_access.h"
#include "core/http/message.h"

namespace lambent::cli {
namespace {

bool is_redirect(const CurlHead& head) {
  const int status = head.status;
  const bool leads =
      status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
  return leads && head.headers.contains("Location");
}

bool is_host_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

Error bad_host(std::string_view url) {
  return {ErrorCode::kInvalidArgument,
          "'" + std::string(url.substr(0, 100)) + "' has no host that is plain to read"};
}

std::optional<IpAddress> address_in(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return IpAddress::v4(ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr));
  }
  if (address->sa_family == AF_INET6) {
    return IpAddress::v6(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  }
  return std::nullopt;
}

// All of a host; none: it has none, which curl is to tell.
std::vector<IpAddress> addresses_of(const UrlHost& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.host.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  std::vector<IpAddress> addresses;
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    if (const auto address = address_in(each->ai_addr)) addresses.push_back(*address);
  }
  return addresses;
}

struct Closed {
  IpAddress address;
  std::string why;
  bool is_never_meant = false;  // what no one serves models at
};
std::optional<Closed> closed_among(const std::vector<IpAddress>& addresses) {
  std::optional<Closed> closed;
  for (const IpAddress& address : addresses) {
    const auto why = why_closed(address);
    if (!why) continue;
    const bool is_local = *why == "the metadata service of a cloud" || *why == "link-local";
    if (!closed || is_local) closed = Closed{address, std::string(*why), is_local};
  }
  return closed;
}

// So that curl connects to what was looked at, whatever its name resolves to by then.
std::string pin_of(const UrlHost& host, const std::vector<IpAddress>& addresses) {
  if (addresses.empty() || host.host.find(':') != std::string::npos) return "";
  std::string pin = host.host + ":" + host.port + ":";
  for (size_t i = 0; i < addresses.size(); ++i) {
    const std::string text = to_string(addresses[i]);
    pin += (i == 0 ? "" : ",") + (addresses[i].is_v4() ? text : "[" + text + "]");
  }
  return pin;
}

class Hops {
 public:
  explicit Hops(const CurlRequest& request) : request_(request) {}

  Result<CurlHead> run(const CurlSink& sink) {
    CurlRequest request = request_;
    for (unsigned hop = 0;; ++hop) {
      RETURN_IF_ERROR(look(request, hop == 0));
      ASSIGN_OR_RETURN(CurlHead head,
                       run_curl(request, [&](const CurlHead& at, std::string_view piece) {
                         return is_redirect(at) ? Result<void>() : sink(at, piece);
                       }));
      if (!is_redirect(head) || request_.redirects == 0) return head;
      if (hop == request_.redirects) {
        return Error{ErrorCode::kFailedPrecondition,
                     "it redirects more than " + std::to_string(request_.redirects) + " times"};
      }
      ASSIGN_OR_RETURN(const std::string next,
                       redirected_url(request.url, head.headers.get("Location")));
      RETURN_IF_ERROR(turn_to(request, next));
    }
  }

 private:
  // Whether it may go there, and where that is.
  Result<void> look(CurlRequest& request, bool is_first) {
    request.resolve.clear();
    const auto host = host_of_url(request.url);
    // What the user wrote, curl may read as it likes.
    if (!host.ok()) return is_first ? Result<void>() : host.error();
    std::vector<IpAddress> addresses;
    if (request_.has_proxy) {
      // Names are the proxy's to resolve.
      if (const auto literal = parse_ip_address(host->host)) addresses.push_back(*literal);
    } else {
      addresses = addresses_of(*host);
      request.resolve = pin_of(*host, addresses);
    }
    const auto closed = closed_among(addresses);
    if (is_first) begins_private_ = closed.has_value();
    if (!closed || request_.allows_private) return {};
    if (!closed->is_never_meant && begins_private_) return {};
    return Error{ErrorCode::kPermissionDenied, std::string(is_first ? "" : "it redirects to ") +
                                                   "'" + host->host + "', which is " +
                                                   to_string(closed->address) + " (" + closed->why +
                                                   "); --fetch-private allows that"};
  }

  static Result<void> turn_to(CurlRequest& request, const std::string& next) {
    const auto before = host_of_url(request.url);
    ASSIGN_OR_RETURN(const UrlHost after, host_of_url(next));
    if (after.has_user) {
      return Error{ErrorCode::kFailedPrecondition, "it redirects to a URL with a password"};
    }
    if (!before.ok() || before->host != after.host || before->port != after.port) {
      request.user.clear();
      request.signature.clear();
      std::erase_if(request.headers, [](const std::string& header) {
        return http::same_name(header.substr(0, header.find(':')), "Authorization");
      });
    }
    request.url = next;
    return {};
  }

  const CurlRequest& request_;
  bool begins_private_ = false;
};

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
  if (host.scheme.empty()) return bad_host(url);
  rest = rest.substr(0, rest.find_first_of("/?#"));
  if (rest.find('\\') != std::string_view::npos) return bad_host(url);
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    host.has_user = true;
    rest.remove_prefix(at + 1);
  }
  std::string_view port;
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) return bad_host(url);
    host.host = rest.substr(1, end - 1);
    if (!parse_ip_address(host.host)) return bad_host(url);
    port = rest.substr(end + 1);
  } else {
    const size_t colon = std::min(rest.find(':'), rest.size());
    host.host = rest.substr(0, colon);
    port = rest.substr(colon);
    if (host.host.empty() || !std::ranges::all_of(host.host, is_host_letter)) return bad_host(url);
  }
  host.port = host.scheme == "https" ? "443" : "80";
  if (port.empty() || port == ":") return host;
  if (!port.starts_with(':') || port.size() > 6) return bad_host(url);
  port.remove_prefix(1);
  if (!std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; })) return bad_host(url);
  host.port = port;
  return host;
}

Result<std::string> redirected_url(const std::string& url, std::string_view location) {
  const auto refused = [](const std::string& where) {
    return Error{ErrorCode::kFailedPrecondition, "it redirects to " + where};
  };
  const bool is_plain = std::ranges::all_of(location, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte < 0x7f && c != '\\';
  });
  if (location.empty() || !is_plain) return refused("what is no URL");
  const size_t host = url.find("://") + 3;
  const std::string scheme = url.substr(0, host - 3);
  std::string next;
  const size_t colon = location.find(':');
  const size_t first_slash = location.find_first_of("/?#");
  if (location.starts_with("//")) {
    next = scheme + ":" + std::string(location);
  } else if (colon != std::string_view::npos && colon < first_slash) {
    next = location;
    const std::string to = next.substr(0, colon);
    if (!http::same_name(to, "http") && !http::same_name(to, "https")) {
      return refused("'" + to.substr(0, 20) + ":', which is not fetched");
    }
    std::transform(next.begin(), next.begin() + static_cast<ptrdiff_t>(colon), next.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  } else {
    const std::string plain = url.substr(0, url.find_first_of("?#", host));
    const size_t path = std::min(plain.find('/', host), plain.size());
    const size_t slash = plain.rfind('/');
    const std::string folder =
        slash == std::string::npos || slash < path ? plain + "/" : plain.substr(0, slash + 1);
    if (location.starts_with('/')) {
      next = plain.substr(0, path) + std::string(location);
    } else {
      next = (location.starts_with('?') ? plain : folder) + std::string(location);
    }
  }
  if (scheme == "https" && !next.starts_with("https://")) {
    return refused("http, which anyone on the way can read");
  }
  return next;
}

Result<CurlHead> run_curl_hops(const CurlRequest& request, const CurlSink& sink) {
  return Hops(request).run(sink);
}

}  // namespace lambent::cli
