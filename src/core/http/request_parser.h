// RequestParser: turns the bytes of one connection into requests, refusing what is malformed,
// ambiguous or too large. Pure (no sockets, no time); used by the server's connections and fuzzed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/http/chunked_decoder.h"
#include "core/http/message.h"

namespace lambent::http {

class RequestParser {
 public:
  struct Limits {
    size_t max_headers = 0;
    size_t max_body = 0;
    // Which requests stream, told by their heads: the caller takes their bodies piece by piece out
    // of request().body, and no limit holds for them. May be null or empty; outlives the parser.
    const std::function<bool(const Request&)>* streams = nullptr;
  };
  enum class Status {
    kIdle,      // between requests: nothing of the next one has arrived
    kHead,      // in the middle of a request line or headers
    kBody,      // the head was fine, its body is still arriving
    kComplete,  // request() is whole; call next() before feeding more
    kFailed,    // answer failure() and close: what follows cannot be trusted
  };
  // An HTTP status and a reason for the client's developer.
  struct Failure {
    int status = 0;
    std::string_view reason;
  };

  explicit RequestParser(Limits limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Consumes bytes from the front of `data`, up to the end of the current request; of one that
  // streams, up to the end of its head first.
  Status feed(std::string_view& data);
  Status status() const { return status_; }
  const Failure& failure() const { return failure_; }

  // What is known from the head on (kBody, kComplete).
  Request& request() { return request_; }
  bool keep_alive() const { return keep_alive_; }
  bool is_http_1_0() const { return http_1_0_; }
  bool streams() const { return streams_; }
  // What came behind the chunks of its body, once that is whole; lines that are no fields are
  // dropped.
  Headers trailers() const;
  bool is_chunked() const { return chunked_; }
  // Of a body whose size was told; 0 of a chunked one.
  size_t body_left() const { return chunked_ ? 0 : body_left_; }
  // True once per request, if the client waits for "100 Continue" before it sends the body.
  bool take_expects_continue();

  // Forgets the request that is complete.
  void next();

 private:
  // Callbacks of the C parser that reads heads.
  struct Callbacks;
  struct CParser;

  void feed_head(std::string_view& data);
  void parse_head(std::string_view head);
  void check_head();
  void feed_sized_body(std::string_view& data);
  void feed_chunked_body(std::string_view& data);
  void fail(int status, std::string_view reason);

  const Limits limits_;
  std::unique_ptr<CParser> c_parser_;
  Status status_ = Status::kIdle;
  Failure failure_;
  std::string partial_head_;  // only if a head arrives in pieces
  Request request_;
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool expects_continue_ = false;
  bool chunked_ = false;
  bool streams_ = false;
  bool head_parsed_ = false;
  size_t body_left_ = 0;
  ChunkedDecoder chunks_;
};

}  // namespace lambent::http
