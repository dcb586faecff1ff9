// ResponseParser: turns the bytes of a connection into the response to one request. Pure; used by
// the blocking client, and fuzzed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/http/chunked_decoder.h"
#include "core/http/message.h"

namespace lambent::http {

class ResponseParser {
 public:
  // `bodiless`: the request was a HEAD.
  explicit ResponseParser(bool bodiless) : bodiless_(bodiless) {}

  // Consumes from the front of `data`; true once the response is whole. What has come of the body
  // is in response().body, from where the caller may take it at any time.
  Result<bool> feed(std::string_view& data);
  // The server closed the connection: true if that is how this response ends.
  bool finish() const { return framing_ == Framing::kToClose && head_done_; }

  Response& response() { return response_; }
  bool head_done() const { return head_done_; }
  bool keep_alive() const { return keep_alive_ && framing_ != Framing::kToClose; }

 private:
  enum class Framing { kSized, kChunked, kToClose };
  struct Callbacks;

  Result<void> parse_head(std::string_view head);

  const bool bodiless_;
  std::string partial_head_;
  Response response_;
  bool head_done_ = false;
  bool keep_alive_ = true;
  Framing framing_ = Framing::kSized;
  size_t body_left_ = 0;
  ChunkedDecoder chunks_;
};

}  // namespace lambent::http
