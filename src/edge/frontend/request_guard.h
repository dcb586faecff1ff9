// RequestGuard: which requests a web page could have made its browser send, told only by their
// headers. Asked once for every request, before any route. A value; any thread.
//
// A page of another site can send requests to 127.0.0.1 (CSRF), and with a name of its own that
// resolves to 127.0.0.1 it can also read the answers (DNS rebinding). Browsers name the page in
// Origin and Sec-Fetch-Site, and the name that they resolved in Host; scripts cannot change them.
// Clients that are no browsers send neither of the first two.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/http/authority.h"
#include "core/http/message.h"

namespace lambent::frontend {

// What Host may name.
struct HostPolicy {
  // The TCP listener's; nothing if there is none. Every IP address is answered to if this is the
  // wildcard address: what this machine is called by then is not ours to know, and a page cannot
  // make a browser send an address that it did not connect to.
  std::optional<http::Authority> listener;
  // Beside localhost and loopback addresses. Without a port: with any.
  std::vector<http::Authority> names;
  // Each function has a name below it (function_target.h), which is no name of the API; empty:
  // none.
  std::string function_domain = {};
};

class RequestGuard {
 public:
  explicit RequestGuard(HostPolicy policy);

  // PERMISSION_DENIED, with a message for the client's user, if the request is refused. Host
  // is not looked at over Unix sockets, which no browser connects to.
  Result<void> check(const http::Request& request) const;
  // The two parts of it: whether this worker is meant, and whether a page may have sent it. Only
  // the second may be passed over, where the owner of a function allows its pages
  // (cross_origin.h).
  Result<void> check_host(const http::Request& request) const;
  Result<void> check_page(const http::Request& request) const;

 private:
  // `scheme_port` is meant where the host has no port.
  bool answers_to(const http::Authority& host, uint16_t scheme_port) const;

  HostPolicy policy_;
};

}  // namespace lambent::frontend
