// What programs that install packages ask of the proxy before the index. What is sent on is one
// request, and no more, to the place that was checked.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "node/environments/proxy_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto request = environments::parse_proxy_request(text); request.ok()) {
    CHECK(request->port != 0 && !request->host.empty(), "a place");
    if (!request->tunnel) {
      CHECK(request->head.find("\r\n\r\n") == request->head.size() - 4, "one request");
    }
  }
  (void)environments::place_of_url(text);
  return 0;
}
