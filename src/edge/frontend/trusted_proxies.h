// TrustedProxies: the reverse proxies whose X-Forwarded-* fields say where a request comes from.
// Values and pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/domain/ip_address.h"
#include "core/http/message.h"

namespace lambent::frontend {

class TrustedProxies {
 public:
  // Each an address, a range ("10.0.0.0/8"), or "unix" for those that come over the Unix socket.
  // INVALID_ARGUMENT otherwise.
  static Result<TrustedProxies> parse(const std::vector<std::string>& texts);

  bool trusts(const http::Peer& peer) const;
  bool trusts(const IpAddress& address) const;

 private:
  std::vector<IpRange> ranges_;
  bool over_unix_ = false;
};

// How the client sees the function.
struct ClientView {
  // "127.0.0.1:40312" or "[::1]:40312", with port 0 where a proxy told it; empty: unknown, as for
  // Unix sockets.
  std::string address;
  std::string protocol;  // "http" or "https"
  std::string host;      // HOST[:PORT]; may be empty
  std::string prefix;    // of its path, such as "/f/web"; empty: none
};

// As the request shows it, whose path had `prefix`; of a trusted proxy, as its X-Forwarded-For,
// -Proto, -Host and -Prefix say. What makes no sense there is left out.
ClientView client_view(const http::Request& request, const std::string& prefix,
                       const TrustedProxies& proxies);

}  // namespace lambent::frontend
