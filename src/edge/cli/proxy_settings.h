// ProxySettings: by which proxies curl fetches, as its users set them. Values and pure functions.
#pragma once

#include <string>
#include <string_view>

#include "edge/cli/url_host.h"

namespace lambent::cli {

// Of http_proxy and its kin. Empty: none.
struct ProxySettings {
  std::string http;    // for http://
  std::string https;   // for https://
  std::string except;  // hosts that are reached without, as NO_PROXY has them
};

// The proxy that a host is reached by; empty: none.
std::string proxy_for(const ProxySettings& settings, const UrlHost& host);

// Whether names are the proxy's to resolve, and not this machine's.
bool resolves_names(std::string_view proxy);

}  // namespace lambent::cli
