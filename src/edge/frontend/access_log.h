// The access log: a line for each request that has its answer, with its status, its bytes and how
// long it took. On the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/time.h"
#include "core/http/server.h"

namespace lambent::frontend {

struct AccessRecord {
  Duration at{};  // when the request was whole, since the Unix epoch
  std::string origin;
  std::string method;
  std::string target;
  std::string user_agent;
  std::string referer;
  int status = 0;          // 499: the client left before there was one
  uint64_t bytes = 0;      // of the answer's body
  Duration took{};         // until the answer's last byte was given to the connection
  std::string invocation;  // x-amzn-RequestId of the answer
};

// Where a request came from, as logs name it.
std::string origin_of(const http::Peer& peer);

enum class AccessLogFormat { kJson, kCombined };

// With its line end. `combined` is that of web servers, and has no invocation.
std::string line_of(const AccessRecord& record, AccessLogFormat format);

// A handler that does what `inner` does, and tells `write` of each request once. The clock outlives
// it.
http::Server::Handler with_access_log(http::Server::Handler inner, const Clock& clock,
                                      std::function<void(const AccessRecord&)> write);

}  // namespace lambent::frontend
