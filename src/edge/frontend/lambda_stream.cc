#include "edge/frontend/lambda_stream.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "core/base/base64.h"
#include "core/base/json_text.h"
#include "core/domain/limits.h"
#include "core/http/event_stream.h"
#include "core/http/streamed_exchange.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/outcome_headers.h"

namespace lambent::frontend {
namespace {

// A client has a whole frame in its memory.
constexpr size_t kMostOfFrame = 256 * 1024;

http::EventFrame event_of(std::string type, std::string content_type, std::string payload) {
  return {.headers = {{":message-type", "event"},
                      {":event-type", std::move(type)},
                      {":content-type", std::move(content_type)}},
          .payload = std::move(payload)};
}

std::string frame_of(std::string type, std::string content_type, std::string payload) {
  return http::encode_frame(event_of(std::move(type), std::move(content_type), std::move(payload)));
}

http::EventFrame last_event(const nlohmann::json& end) {
  return event_of("InvokeComplete", "application/json", json_text(end));
}

}  // namespace

http::EventFrame lost_stream_end(const Error& error) {
  return last_event({{"ErrorCode", "NodeLost"},
                     {"ErrorDetails", json_text(nlohmann::json{{"errorType", "Lambent.NodeLost"},
                                                               {"errorMessage", error.message}})}});
}

void LambdaStream::listen(std::function<void()> on_gone) {
  if (auto* stream = responder_.answer_stream()) stream->end_at_half_close();
  responder_.on_disconnect([self = shared_from_this(), on_gone = std::move(on_gone)] {
    self->is_gone_ = true;
    self->go_on();
    on_gone();
  });
}

void LambdaStream::start() {
  if (stream_ != nullptr || is_gone_) return;
  stream_ = responder_.answer_stream();
  if (stream_ == nullptr) return;
  http::Response head;
  head.headers.add("Content-Type", std::string(http::kEventStreamType));
  head.headers.add("x-amzn-RequestId", to_string(options_.id));
  stream_->on_room([self = weak_from_this()] {
    if (const auto stream = self.lock()) stream->go_on();
  });
  stream_->start(std::move(head), std::nullopt);
}

void LambdaStream::begin(std::string_view /*content_type*/) {
  start();
  if (stream_ != nullptr) stream_->send_bytes({});
}

bool LambdaStream::take(std::string_view bytes) {
  if (is_gone_) return false;
  start();
  bool has_room = stream_ != nullptr;
  while (stream_ != nullptr && !bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kMostOfFrame);
    bytes.remove_prefix(piece.size());
    has_room = stream_->send_bytes(
        frame_of("PayloadChunk", "application/octet-stream", std::string(piece)));
  }
  return has_room;
}

void LambdaStream::finish(const InvocationResult& result) {
  if (is_gone_) return drop();
  start();
  nlohmann::json end = nlohmann::json::object();
  if (result.outcome == Outcome::kSucceeded) {
    if (!result.payload.empty()) (void)take(result.payload);
  } else {
    end["ErrorCode"] = "Unhandled";
    end["ErrorDetails"] = result.payload;
  }
  // What the headers of an answer that does not stream tell.
  http::Headers outcome;
  add_outcome(outcome, result);
  for (const auto& [name, value] : outcome.fields()) end["LambentOutcome"][name] = value;
  if (options_.log_tail) {
    const std::string_view log = result.log_tail;
    end["LogResult"] = base64_encode(
        log.substr(log.size() - std::min<size_t>(log.size(), limits::kLogTail.count)));
  }
  if (stream_ != nullptr) {
    stream_->send_bytes(http::encode_frame(last_event(end)));
    stream_->finish();
  }
  drop();
}

void LambdaStream::send(http::Response response) {
  if (!is_gone_) responder_.send(std::move(response));
  drop();
}

// To be called as often as there is room; who gave it takes it back.
void LambdaStream::go_on() {
  const auto room = room_;
  if (room) room();
}

// The responder's callbacks hold this.
void LambdaStream::drop() {
  is_gone_ = true;
  stream_ = nullptr;
  http::Responder over = std::move(responder_);
}

}  // namespace lambent::frontend
