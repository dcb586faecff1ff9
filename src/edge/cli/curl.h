// curl, the program: one GET. What is fetched, and every header, is read by a process of its own;
// TLS, proxies and Signature Version 4 are its. Blocks; used by curl_hops.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/http/message.h"
#include "edge/cli/proxy_settings.h"

namespace lambent::cli {

struct CurlRequest {
  std::string url;
  std::vector<std::string> headers = {};  // "Name: value"
  std::string user = {};                  // "KEY:SECRET"
  bool reads_netrc = true;                // ~/.netrc, where there is no `user`
  std::string signature = {};             // Signature Version 4: "aws:amz:REGION:s3"; empty: none
  Duration stall = seconds(30);           // without a byte for so long it ends
  unsigned redirects = 10;                // of run_curl_hops; run_curl follows none
  std::string resolve = {};     // "HOST:PORT:ADDRESS": where that host is; empty: asked for
  bool allows_private = false;  // as run_curl_hops has it
  ProxySettings proxies = {};   // of run_curl_hops
  std::string proxy = {};       // of run_curl; empty: none, whatever the environment says
  Bytes most =
      {};  // where the server says that more comes, nothing is fetched; zero: whatever it is
};
// RESOURCE_EXHAUSTED.
Error too_large(Bytes most);

// What was answered, as far as it came: the head of the last answer.
struct CurlHead {
  int status = 0;
  http::Headers headers = {};
};

// Called with each piece; the head is known by then. An error ends the transfer.
using CurlSink = std::function<Result<void>(const CurlHead& head, std::string_view piece)>;

// The head of an answer that came whole. Errors of the transfer: UNAVAILABLE, ABORTED and
// DEADLINE_EXCEEDED where the same again may end well; FAILED_PRECONDITION else, also if there is
// no curl. Those of `sink` as they are.
Result<CurlHead> run_curl(const CurlRequest& request, const CurlSink& sink);

// The last head in what curl has written of them. Foreign bytes. Pure.
CurlHead last_head(std::string_view text);

}  // namespace lambent::cli
