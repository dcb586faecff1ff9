// The headers that a web page's browser sends, one value a line: Host, Origin, Sec-Fetch-Site. What
// is let in names a host that the worker answers to, and no origin but its own.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "edge/frontend/request_guard.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  http::Request request{.method = "GET", .target = "/"};
  for (const char* name : {"Host", "Origin", "Sec-Fetch-Site"}) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (end > 0) request.headers.add(name, std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto listener = http::parse_authority("127.0.0.1:8980");
  const auto name = http::parse_authority("gpu-1.example");
  const frontend::RequestGuard guard({.listener = listener, .names = {*name}});
  if (!guard.check(request).ok()) return 0;

  const auto host = http::parse_authority(request.headers.get("host"));
  CHECK(host.has_value(), "a request without a host is refused");
  CHECK(http::is_loopback(*host) || host->host == "gpu-1.example", "and one to a foreign host");
  CHECK(http::parse_authority(http::to_string(*host)) == host, "what is written reads the same");
  if (request.headers.contains("origin")) {
    const std::string_view origin = request.headers.get("origin");
    const size_t scheme = origin.find("://");
    CHECK(scheme != std::string_view::npos, "an origin without a scheme is refused");
    const auto page = http::parse_authority(origin.substr(scheme + 3));
    CHECK(page && page->host == host->host, "a foreign origin is refused");
  }
  const std::string_view site = request.headers.get("sec-fetch-site");
  CHECK(site.empty() || site == "same-origin" || site == "none", "a foreign site is refused");
  return 0;
}
