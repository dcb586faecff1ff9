// Where a server's Location leads, after a line with the URL that it is seen from: never back to
// http, and who asks is told to no other place.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "edge/cli/curl_hops.h"
#include "edge/cli/url_host.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(bytes.find('\n'), bytes.size());
  const std::string url(bytes.substr(0, end));
  const auto next =
      cli::redirected_url(url, end == bytes.size() ? std::string_view() : bytes.substr(end + 1));
  if (!next.ok()) return 0;
  const auto before = cli::host_of_url(url);
  const auto after = cli::host_of_url(*next);
  CHECK(before.ok() && after.ok(), "both have hosts");
  CHECK(before->scheme != "https" || after->scheme == "https", "nothing falls back to http");
  CHECK(after->user == (after->is_same_place(*before) ? before->user : ""),
        "who asks is told where it was");
  return 0;
}
