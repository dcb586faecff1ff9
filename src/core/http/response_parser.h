// ResponseParser: turns the bytes of a connection into the response to one request. Pure; used by
// the blocking client, and fuzzed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/http/chunked_decoder.h"
#include "core/http/message.h"

namespace lambent::http {

class ResponseParser {
 public:
  struct Options {
    bool bodiless = false;  // the request was a HEAD
    bool upgrades = false;  // it asked for another protocol: 101 is an answer
    size_t max_head = kMostHead;
  };
  static constexpr size_t kMostHead = 2 * 1024 * 1024;

  explicit ResponseParser(bool bodiless) : ResponseParser(Options{.bodiless = bodiless}) {}
  explicit ResponseParser(Options options) : options_(options) {}

  // Consumes from the front of `data`; true once the response is whole. What has come of the body
  // is in response().body, from where the caller may take it at any time.
  Result<bool> feed(std::string_view& data);
  // The server closed the connection: true if that is how this response ends.
  bool finish() const { return framing_ == Framing::kToClose && head_done_; }

  Response& response() { return response_; }
  bool head_done() const { return head_done_; }
  // After 101: what follows is of the other protocol.
  bool switched() const { return head_done_ && response_.status == 101; }
  // What the head says of the body's size; none: it is chunked, or ends with the connection. That
  // of an answer to HEAD is the size that there would be.
  std::optional<uint64_t> size() const { return size_; }
  bool keep_alive() const { return keep_alive_ && framing_ != Framing::kToClose; }

 private:
  enum class Framing { kSized, kChunked, kToClose };
  struct Callbacks;

  Result<void> parse_head(std::string_view head);

  const Options options_;
  std::string partial_head_;
  Response response_;
  bool head_done_ = false;
  bool keep_alive_ = true;
  Framing framing_ = Framing::kSized;
  std::optional<uint64_t> size_;
  size_t body_left_ = 0;
  ChunkedDecoder chunks_;
};

}  // namespace lambent::http
