// What HTTP requests become for handlers, and what their answers become: events and results of
// payload format 2.0, as Lambda's function URLs have them. Pure; fuzzed; any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/http/message.h"

namespace lambent::frontend {

// A request as its function gets it: path, headers and body are the function's.
struct EventRequest {
  http::Request request;
  std::string function;  // its name, without a qualifier
  InvocationId id;
  Duration time{};  // since the Unix epoch
};

// JSON. A body is text if its Content-Type says so and it is UTF-8; else it is in base64.
std::string event_of(const EventRequest& from);

// What a handler returned, as JSON. An object with "statusCode" says what the response is; all else
// is the body of a 200. INVALID_ARGUMENT, with what is wrong, if no response can be made of it.
Result<http::Response> response_of_result(std::string_view payload);

// The type of a streamed answer that begins with JSON (statusCode, headers, cookies) and 8 zero
// bytes, before its body.
constexpr std::string_view kIntegrationResponse =
    "application/vnd.awslambda.http-integration-response";

// Finds the head of a streamed answer in its first bytes.
class StreamedHead {
 public:
  // Without such a type the head is known at once: 200.
  explicit StreamedHead(std::string_view content_type);

  // Takes bytes from the front of `bytes`; true once the head is known, and what is left is of the
  // body. INVALID_ARGUMENT if it is none, or has more than limits::kStreamPrelude.
  Result<bool> feed(std::string_view& bytes);
  // Once it is known.
  http::Response& response() { return response_; }

 private:
  http::Response response_;
  bool is_known_;
  std::string text_;
};

}  // namespace lambent::frontend
