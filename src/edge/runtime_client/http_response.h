// Parses an HTTP/1.1 response from a growing buffer: strict, and only what a Runtime API sends.
// A pure function over bytes; used by Client, on the handler's thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace lambent::runtime_client {

constexpr size_t kMostHeaderBytes = 64 * 1024;
constexpr size_t kMostBodyBytes = 64 * 1024 * 1024;

// Views into the buffer that was parsed, but for a body that came in chunks.
struct HttpResponse {
  int status = 0;
  std::vector<std::pair<std::string_view, std::string_view>> headers;
  std::string_view body;
  std::string joined_chunks;
  bool chunked = false;
  bool keep_alive = true;
  size_t consumed = 0;  // bytes of the buffer that this response took

  std::string_view header(std::string_view name) const;
  std::string_view content() const { return chunked ? std::string_view(joined_chunks) : body; }
};

// True if `response` is complete; false if more bytes are needed; INVALID_ARGUMENT if `buffer` is
// no response that we accept.
Result<bool> parse_response(std::string_view buffer, HttpResponse& response);

}  // namespace lambent::runtime_client
