// What the two sources of Session share: an answer that a runtime streams, and answers to it.
// Included by them only.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/http/answer_sink.h"
#include "core/http/server.h"
#include "node/runtime_api/session.h"

namespace lambent::runtime_api {

http::Response json_response(int status, std::string body);
http::Response error_response(int status, std::string_view type, std::string_view message);
http::Response accepted();

// Told by its head: a POST of a response in the mode "streaming".
bool is_streamed_response(const http::Request& head);

struct Session::Streaming {
  std::string id;
  http::Responder responder;
  std::string content_type;
  // Shared with who waits for the answer: see AnswerSink. Null: it is collected.
  std::shared_ptr<http::AnswerSink> sink;
  std::string collected;
  uint64_t total = 0;
};

}  // namespace lambent::runtime_api
