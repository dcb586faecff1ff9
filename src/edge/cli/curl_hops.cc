#include "edge/cli/curl_hops.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "core/domain/closed_addresses.h"
#include "core/http/message.h"
#include "edge/cli/proxy_settings.h"
#include "edge/cli/url_host.h"

namespace lambent::cli {
namespace {

bool is_redirect(const CurlHead& head) {
  const int status = head.status;
  const bool leads =
      status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
  return leads && head.headers.contains("Location");
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

// All of a host. NOT_FOUND, UNAVAILABLE: it has none, or no one tells them now.
Result<std::vector<IpAddress>> look_up(const std::string& host) {
  const auto failed = [&](ErrorCode code) {
    return Error{code, "Could not resolve host: " + host};
  };
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (status == EAI_NONAME || status == EAI_NODATA) return failed(ErrorCode::kNotFound);
  if (status != 0) return failed(ErrorCode::kUnavailable);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  std::vector<IpAddress> addresses;
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    if (const auto address = address_in(each->ai_addr)) addresses.push_back(*address);
  }
  if (addresses.empty()) return failed(ErrorCode::kNotFound);
  return addresses;
}

// One that tells why a host is refused: what no one means before all others.
struct Closed {
  IpAddress address;
  ClosedAddress how;
};
std::optional<Closed> closed_among(const std::vector<IpAddress>& addresses) {
  std::optional<Closed> closed;
  for (const IpAddress& address : addresses) {
    const auto how = closed_address(address);
    if (how && (!closed || how->is_never_meant)) closed = Closed{address, *how};
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
  Hops(const CurlRequest& request, const HopSteps& steps) : request_(request), steps_(steps) {}

  Result<CurlHead> run(const CurlSink& sink) {
    CurlRequest request = request_;
    for (unsigned hop = 0;; ++hop) {
      RETURN_IF_ERROR(look(request, hop == 0));
      ASSIGN_OR_RETURN(CurlHead head,
                       steps_.fetch(request, [&](const CurlHead& at, std::string_view piece) {
                         return follows(at) ? Result<void>() : sink(at, piece);
                       }));
      if (!follows(head)) return head;
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
  bool follows(const CurlHead& head) const { return request_.redirects > 0 && is_redirect(head); }

  // Whether it may go there, and where that is.
  Result<void> look(CurlRequest& request, bool is_first) {
    request.resolve.clear();
    const auto host = host_of_url(request.url);
    if (!host.ok()) return host.error();
    request.proxy = proxy_for(request_.proxies, *host);
    std::vector<IpAddress> addresses;
    if (const auto literal = parse_ip_address(host->host)) {
      addresses.push_back(*literal);
    } else if (request.proxy.empty() || !resolves_names(request.proxy)) {
      ASSIGN_OR_RETURN(addresses, steps_.look_up(host->host));
      request.resolve = pin_of(*host, addresses);
    }
    const auto closed = closed_among(addresses);
    if (is_first) begins_private_ = closed.has_value();
    if (!closed || request_.allows_private) return {};
    if (!closed->how.is_never_meant && begins_private_) return {};
    return Error{ErrorCode::kPermissionDenied,
                 std::string(is_first ? "" : "it redirects to ") + "'" + host->host +
                     "', which is " + to_string(closed->address) + " (" +
                     std::string(closed->how.why) + "); --fetch-private allows that"};
  }

  static Result<void> turn_to(CurlRequest& request, const std::string& next) {
    ASSIGN_OR_RETURN(const UrlHost before, host_of_url(request.url));
    ASSIGN_OR_RETURN(const UrlHost after, host_of_url(next));
    if (!before.is_same_place(after)) {
      request.user.clear();
      request.reads_netrc = false;
      request.signature.clear();
      std::erase_if(request.headers, [](const std::string& header) {
        return http::same_name(header.substr(0, header.find(':')), "Authorization");
      });
    }
    request.url = next;
    return {};
  }

  const CurlRequest& request_;
  const HopSteps& steps_;
  bool begins_private_ = false;
};

}  // namespace

Result<std::string> redirected_url(const std::string& url, std::string_view location) {
  const auto refused = [](const std::string& where) {
    return Error{ErrorCode::kFailedPrecondition, "it redirects to " + where};
  };
  const bool is_plain = std::ranges::all_of(location, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte < 0x7f && c != '\\';
  });
  if (location.empty() || !is_plain) return refused("what is no URL");
  ASSIGN_OR_RETURN(const UrlHost before, host_of_url(url));
  const std::string& scheme = before.scheme;
  const size_t host = scheme.size() + 3;
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
    std::string plain = url.substr(0, url.find_first_of("?#", host));
    plain.erase(host, before.user.size());
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
  ASSIGN_OR_RETURN(const UrlHost after, host_of_url(next));
  if (!after.user.empty()) return refused("a URL with a password");
  // As curl has it: who asks is told to the place that the URL named it for.
  if (before.is_same_place(after)) next.insert(after.scheme.size() + 3, before.user);
  return next;
}

HopSteps hop_steps() { return {.look_up = look_up, .fetch = run_curl}; }

Result<CurlHead> run_curl_hops(const CurlRequest& request, const CurlSink& sink,
                               const HopSteps& steps) {
  return Hops(request, steps).run(sink);
}

}  // namespace lambent::cli
