// ProxyRequest: what uv asks of the proxy through which it reaches the index of packages; and the
// places that the proxy leads to. Pure: trusts no byte. Used by IndexProxy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::environments {

// The largest head of a request, with the empty line at its end.
inline constexpr size_t kMostProxyHead = 16 << 10;

struct ProxyRequest {
  std::string host;  // in lower case; an IPv6 address without its brackets
  uint16_t port = 0;
  bool tunnel = false;  // CONNECT: bytes both ways
  // Else what the server is sent: the same request as servers are asked, once for a connection.
  std::string head;

  // "pypi.org:443", "[::1]:80"
  std::string place() const;
};

// `head`: all up to and with the first empty line. INVALID_ARGUMENT: no request of a client to a
// proxy, or one with a body.
Result<ProxyRequest> parse_proxy_request(std::string_view head);

// The place of an http or https URL, as ProxyRequest::place() writes it. INVALID_ARGUMENT.
Result<std::string> place_of_url(std::string_view url);

// What uv may reach for an index: its place and those of further URLs; of PyPI, which is the index
// if there is none (empty), also where its files lie. INVALID_ARGUMENT.
Result<std::vector<std::string>> index_places(const std::string& index,
                                              const std::vector<std::string>& further);

}  // namespace lambent::environments
