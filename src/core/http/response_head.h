// The text of a response's head, and the Date line that goes into it. Used by the server's
// connections on the loop thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/time.h"
#include "core/http/message.h"

namespace lambent::http {

enum class BodyFraming {
  kSized,    // Content-Length
  kChunked,  // Transfer-Encoding: chunked
  kToClose,  // for HTTP/1.0: the body ends with the connection
};

struct HeadOptions {
  BodyFraming framing = BodyFraming::kSized;
  size_t body_size = 0;
  bool close = false;
  bool http_1_0 = false;
  bool upgrade = false;  // the connection changes its protocol behind this head
};

// Status line, the response's own headers, then ours. Bytes that would end a header line early are
// replaced by spaces. Headers that are ours to add are dropped from the response's own.
std::string encode_head(const Response& response, const HeadOptions& options,
                        std::string_view date_line);
// "OK" for 200; "Unknown" for what has no name.
std::string_view reason_phrase(int status);
// Whether responses with this status have no body by definition (1xx, 204, 304).
bool is_bodiless(int status);

// "Date: Sat, 21 Nov 2026 01:02:03 GMT\r\n", made again once a second.
class DateLine {
 public:
  explicit DateLine(const Clock& clock) : clock_(clock) {}
  std::string_view at(Instant now);

 private:
  const Clock& clock_;
  Instant valid_until_ = Instant::min();
  std::string line_;
};

}  // namespace lambent::http
