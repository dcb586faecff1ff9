// One GET through the redirects of servers. Where each hop goes is looked at before curl connects:
// a server of the internet does not send us into a private network. Blocks; used by file_fetch.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "edge/cli/curl.h"

namespace lambent::cli {

// "https", "example.com", "443" of a URL of http or https. The host of an address of IPv6 is
// without brackets.
struct UrlHost {
  std::string scheme;
  std::string host;
  std::string port;
  bool has_user = false;

  bool operator==(const UrlHost&) const = default;
};
// INVALID_ARGUMENT: one that programs might read in different ways. Pure.
Result<UrlHost> host_of_url(std::string_view url);

// Where a Location leads, seen from a URL. FAILED_PRECONDITION: to another protocol, or from https
// to http. Foreign. Pure.
Result<std::string> redirected_url(const std::string& url, std::string_view location);

// As run_curl, through at most `request.redirects` redirects; what these carry does not reach
// `sink`. What proves who asks goes to the first host only. PERMISSION_DENIED: a hop leads to an
// address of no public network, and `request.allows_private` is not set: such as a server of the
// internet that redirects to 10.0.0.1, or anything that leads to a cloud's metadata service.
Result<CurlHead> run_curl_hops(const CurlRequest& request, const CurlSink& sink);

}  // namespace lambent::cli
