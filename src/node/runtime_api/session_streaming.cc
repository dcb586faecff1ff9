// Session's part for answers that a runtime streams: their pieces go to the sink of who waits,
// which holds the runtime back while it is behind.
#include "node/runtime_api/session_streaming.h"

#include <algorithm>
#include <utility>

#include "core/base/base64.h"
#include "core/http/streamed_exchange.h"
#include "node/runtime_api/error_type.h"
#include "node/runtime_api/limits.h"

namespace lambent::runtime_api {
namespace {

constexpr std::string_view kTruncated = "Runtime.TruncatedResponse";

bool has_body(const http::Headers& headers) {
  const std::string_view length = headers.get("Content-Length");
  return headers.contains("Transfer-Encoding") || (!length.empty() && length != "0");
}

// Runtimes send it in base64, since a trailer is one line.
std::string error_body_of(std::string_view trailer) {
  auto decoded = base64_decode(trailer);
  return decoded ? std::move(*decoded) : std::string(trailer);
}

}  // namespace

http::Response json_response(int status, std::string body) {
  http::Response response;
  response.status = status;
  response.headers.add("Content-Type", "application/json");
  response.body = std::move(body);
  return response;
}

http::Response error_response(int status, std::string_view type, std::string_view message) {
  return json_response(status, error_json(type, message));
}

http::Response accepted() { return json_response(202, "{\"status\":\"OK\"}\n"); }

bool is_streamed_response(const http::Request& head) {
  const std::string_view path = http::path_of(head.target);
  return head.method == "POST" && path.starts_with("/2018-06-01/runtime/invocation/") &&
         path.ends_with("/response") &&
         head.headers.get("Lambda-Runtime-Function-Response-Mode") == "streaming";
}

Session::Streaming* Session::find_streaming(std::string_view id) const {
  const auto found = std::find_if(streaming_.begin(), streaming_.end(),
                                  [&](const auto& each) { return each->id == id; });
  return found == streaming_.end() ? nullptr : found->get();
}

std::unique_ptr<Session::Streaming> Session::take_streaming(std::string_view id) {
  const auto found = std::find_if(streaming_.begin(), streaming_.end(),
                                  [&](const auto& each) { return each->id == id; });
  if (found == streaming_.end()) return nullptr;
  std::unique_ptr<Streaming> taken = std::move(*found);
  streaming_.erase(found);
  if (taken->sink) taken->sink->on_room(nullptr);
  return taken;
}

void Session::handle_stream(std::string_view id, http::Request request, http::Responder responder) {
  http::StreamedExchange* stream = responder.stream();
  if (stream == nullptr || find_streaming(id) != nullptr) {
    return responder.send(error_response(403, "InvalidStateTransition",
                                         "the invocation is being answered by a stream"));
  }
  auto streaming = std::make_unique<Streaming>(
      Streaming{.id = std::string(id),
                .responder = std::move(responder),
                .content_type = std::string(request.headers.get("Content-Type"))});
  if (callbacks_.sink_of) streaming->sink = callbacks_.sink_of(find_running(id)->id);
  Streaming& its = *streaming;
  streaming_.push_back(std::move(streaming));
  const auto with_session = [self = self_, text = its.id](void (Session::*what)(std::string_view)) {
    return [self, text, what] {
      if (*self != nullptr) ((*self)->*what)(text);
    };
  };
  if (its.sink) {
    its.sink->on_room(with_session(&Session::stream_room));
    its.sink->begin(its.content_type);
  }
  if (!has_body(request.headers)) return stream_ended(id);
  its.responder.on_disconnect(with_session(&Session::stream_broke));
  stream->receive({.on_bytes =
                       [self = self_, text = its.id](std::string_view bytes) {
                         if (*self != nullptr) (*self)->stream_bytes(text, bytes);
                       },
                   .on_end = with_session(&Session::stream_ended)});
}

void Session::stream_bytes(std::string_view id, std::string_view bytes) {
  Streaming* streaming = find_streaming(id);
  if (streaming == nullptr) return;
  streaming->total += bytes.size();
  const Bytes most = streaming->sink ? limits::kStreamedResponse : options_.max_response;
  if (streaming->total > most.count) {
    const std::string message =
        "Exceeded maximum allowed payload size (" + std::to_string(most.count) + " bytes).";
    const std::unique_ptr<Streaming> over = take_streaming(id);
    fail_running(id, "Function.ResponseSizeTooLarge", message);
    return over->responder.send(error_response(413, "RequestEntityTooLarge", message));
  }
  if (!streaming->sink) {
    streaming->collected += bytes;
  } else if (!streaming->sink->take(bytes)) {
    if (streaming->sink->client_is_gone()) return stream_unwanted(id);
    streaming->responder.stream()->hold(true);
  }
}

void Session::stream_room(std::string_view id) {
  Streaming* streaming = find_streaming(id);
  if (streaming == nullptr) return;
  if (streaming->sink->client_is_gone()) return stream_unwanted(id);
  if (http::StreamedExchange* stream = streaming->responder.stream()) stream->hold(false);
}

void Session::stream_ended(std::string_view id) {
  const std::unique_ptr<Streaming> streaming = take_streaming(id);
  if (streaming == nullptr) return;
  http::Headers trailers;
  if (const auto* stream = streaming->responder.stream()) trailers = stream->trailers();
  const std::string_view type = trailers.get("Lambda-Runtime-Function-Error-Type");
  const InvocationId answered = take_running(streaming->id);
  if (!type.empty()) {
    std::string body = error_body_of(trailers.get("Lambda-Runtime-Function-Error-Body"));
    std::string name = error_type_of(type, body, "Function.Unknown");
    if (body.empty()) body = error_json(name, "the function failed while it answered");
    if (callbacks_.on_error) callbacks_.on_error(answered, std::move(body), std::move(name));
  } else if (callbacks_.on_response) {
    callbacks_.on_response(answered, std::move(streaming->collected),
                           std::move(streaming->content_type));
  }
  streaming->responder.send(accepted());
}

void Session::stream_broke(std::string_view id) {
  const std::unique_ptr<Streaming> streaming = take_streaming(id);
  if (streaming == nullptr) return;
  fail_running(streaming->id, kTruncated, "the runtime did not finish its answer");
}

// Its client has gone, and has had what it wanted. The runtime is told in the middle of its answer,
// so that it need not make the rest of it.
void Session::stream_unwanted(std::string_view id) {
  const std::unique_ptr<Streaming> streaming = take_streaming(id);
  if (streaming == nullptr) return;
  const InvocationId answered = take_running(streaming->id);
  expect_return();
  streaming->responder.send(
      error_response(410, "ClientGone", "nothing more of this answer is wanted"));
  if (callbacks_.on_response) {
    callbacks_.on_response(answered, {}, std::move(streaming->content_type));
  }
}

}  // namespace lambent::runtime_api
