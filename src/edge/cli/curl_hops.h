// One GET through the redirects of servers. Where each hop goes is looked at before curl connects:
// a server of the internet does not send us into a private network. Blocks; used by file_fetch.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/ip_address.h"
#include "edge/cli/curl.h"

namespace lambent::cli {

// Where a Location leads, seen from a URL, whose user and password go along to its own host and
// port. FAILED_PRECONDITION: to another protocol, from https to http, or to a password of the
// server's choice. INVALID_ARGUMENT: as host_of_url. Foreign. Pure.
Result<std::string> redirected_url(const std::string& url, std::string_view location);

// What a hop takes.
struct HopSteps {
  // The addresses of a host, at least one. NOT_FOUND: it has none; UNAVAILABLE: no one tells now.
  std::function<Result<std::vector<IpAddress>>(const std::string& host)> look_up;
  std::function<Result<CurlHead>(const CurlRequest& request, const CurlSink& sink)> fetch;
};
// Of the system, and run_curl.
HopSteps hop_steps();

// As run_curl, through at most `request.redirects` redirects; what the ones that are followed carry
// does not reach `sink`. What proves who asks goes to the first host only. PERMISSION_DENIED: a hop
// leads to an address of no public network, and `request.allows_private` is not set: such as a
// server of the internet that redirects to 10.0.0.1, or anything that leads to a cloud's metadata
// service. Also the errors of `look_up` and host_of_url: where a hop goes that cannot be looked at,
// nothing goes.
Result<CurlHead> run_curl_hops(const CurlRequest& request, const CurlSink& sink,
                               const HopSteps& steps = hop_steps());

}  // namespace lambent::cli
