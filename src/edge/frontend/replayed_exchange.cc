#include "edge/frontend/replayed_exchange.h"

#include <utility>

namespace lambent::frontend {

void ReplayedExchange::send(http::Response response) {
  if (!collects_) return client_.send(std::move(response));
  is_too_much_ = is_too_much_ || !admits_(response.body.size());
  answer_ = std::move(response);
  finish();
}

void ReplayedExchange::abandon() { http::Responder over = std::move(client_); }

void ReplayedExchange::start(http::Response head, std::optional<uint64_t> size) {
  if (collects_) {
    answer_ = std::move(head);
  } else if (stream_ != nullptr) {
    stream_->start(std::move(head), size);
  } else {
    client_.start_chunked(std::move(head));
  }
}

bool ReplayedExchange::send_bytes(std::string_view bytes) {
  if (!collects_) {
    return stream_ != nullptr ? stream_->send_bytes(bytes) : client_.send_chunk(bytes);
  }
  is_too_much_ = is_too_much_ || !admits_(bytes.size());
  if (is_too_much_) {
    answer_.body = {};
  } else {
    answer_.body += bytes;
  }
  return true;
}

void ReplayedExchange::on_room(std::function<void()> callback) {
  if (!collects_ && stream_ != nullptr) stream_->on_room(std::move(callback));
}

void ReplayedExchange::finish() {
  if (!collects_) return stream_ != nullptr ? stream_->finish() : client_.finish_chunked();
  const auto done = std::exchange(done_, nullptr);
  if (!done) return;
  client_.on_disconnect(nullptr);
  if (is_too_much_) {
    return done(std::move(client_), Error{ErrorCode::kUnavailable,
                                          "too many answers for shared memory at once; try again"});
  }
  done(std::move(client_), std::move(answer_));
}

}  // namespace lambent::frontend
