// The X-Forwarded-* fields of a proxy, one value a line: For, Proto, Host, Prefix. What is believed
// is an address, a scheme, a host and a path; from others than the proxy nothing is.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/http/authority.h"
#include "edge/frontend/trusted_proxies.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  http::Request request{.method = "GET", .target = "/"};
  request.headers.add("Host", "worker:8980");
  for (const char* name :
       {"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Prefix"}) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    request.headers.add(name, std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  request.peer.address = "10.0.0.1:9";
  const auto proxies = frontend::TrustedProxies::parse({"10.0.0.0/8", "fd00::/8"});
  CHECK(proxies.ok(), "these are ranges");
  const auto view = frontend::client_view(request, "/f/web", *proxies);
  const auto address = http::parse_authority(view.address);
  CHECK(address && address->kind != http::Authority::Kind::kName && address->port,
        "the client has an address and a port");
  CHECK(view.protocol == "http" || view.protocol == "https", "there is no other scheme");
  CHECK(http::parse_authority(view.host).has_value(), "a host is one");
  CHECK(view.prefix.empty() || view.prefix.front() == '/', "a prefix is a path");

  request.peer.address = "192.0.2.1:9";
  const auto own = frontend::client_view(request, "/f/web", *proxies);
  CHECK(own.address == request.peer.address && own.protocol == "http" &&
            own.host == "worker:8980" && own.prefix == "/f/web",
        "who is no proxy is not believed");
  return 0;
}
