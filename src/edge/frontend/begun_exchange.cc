#include "edge/frontend/begun_exchange.h"

#include <utility>

#include "core/http/limits.h"

namespace lambent::frontend {

BegunExchange::BegunExchange(http::Responder client, Admits admits, Release release)
    : client_(std::move(client)),
      stream_(client_.stream()),
      admits_(std::move(admits)),
      release_(std::move(release)) {}

BegunExchange::~BegunExchange() { release_(admitted_); }

void BegunExchange::read(Look look) {
  look_ = std::move(look);
  reading_ = shared_from_this();
  const std::weak_ptr<BegunExchange> weak = reading_;
  client_.on_disconnect([weak] {
    const auto live = weak.lock();
    if (!live) return;
    live->look_ = nullptr;
    live->reading_ = nullptr;
  });
  stream_->expect_whole(true);
  stream_->receive({.on_bytes =
                        [weak](std::string_view bytes) {
                          if (const auto live = weak.lock()) live->take(bytes);
                        },
                    .on_end =
                        [weak] {
                          if (const auto live = weak.lock()) live->end();
                        }});
}

void BegunExchange::take(std::string_view bytes) {
  if (!look_) {
    if (may_give() && kept_.empty()) return sink_.on_bytes(bytes);
    kept_ += bytes;  // it was on its way when the client was stopped
    return;
  }
  if (auto refusal = admits_(kept_.size(), bytes.size())) {
    look_ = nullptr;
    reading_ = nullptr;
    stream_ = nullptr;
    return client_.send(*std::move(refusal));
  }
  admitted_ += bytes.size();
  kept_ += bytes;
  if (kept_.size() >= next_look_) look(false);
}

void BegunExchange::end() {
  has_ended_ = true;
  if (look_) return look(true);
  // Nothing comes that could be too much, and a client that is held is not seen to go.
  if (stream_ != nullptr) stream_->hold(false);
  give();
}

void BegunExchange::look(bool is_whole) {
  next_look_ = 2 * kept_.size();
  // Its receiver may ask for it at once.
  Look looks = std::exchange(look_, nullptr);
  if (!looks(kept_, is_whole)) {
    look_ = std::move(looks);
    return;
  }
  reading_ = nullptr;
  if (stream_ != nullptr) stream_->expect_whole(false);
  if (!sink_.on_bytes && !has_ended_ && stream_ != nullptr) stream_->hold(true);
}

void BegunExchange::receive(Sink sink) {
  sink_ = std::move(sink);
  give();
}

void BegunExchange::hold(bool held) {
  is_held_ = held;
  if (!held) return give();
  if (stream_ != nullptr && !has_ended_) stream_->hold(true);
}

void BegunExchange::give() {
  const auto self = shared_from_this();  // the receiver may end it
  if (std::exchange(is_giving_, true)) return;
  while (may_give() && given_ < kept_.size()) {
    const std::string piece = kept_.substr(given_, limits::kRelayWindow.count);
    given_ += piece.size();
    sink_.on_bytes(piece);
  }
  is_giving_ = false;
  if (!may_give()) return;
  release_(std::exchange(admitted_, 0));
  kept_ = {};
  given_ = 0;
  if (!has_ended_) return stream_->hold(false);
  if (!std::exchange(is_over_, true)) sink_.on_end();
}

void BegunExchange::abandon() {
  stream_ = nullptr;
  http::Responder over = std::move(client_);
}

void BegunExchange::start(http::Response head, std::optional<uint64_t> size) {
  if (stream_ != nullptr) stream_->start(std::move(head), size);
}

void BegunExchange::switch_protocols(http::Response head) {
  if (stream_ == nullptr) return;
  // What follows is no body.
  has_ended_ = false;
  is_over_ = false;
  stream_->switch_protocols(std::move(head));
}

bool BegunExchange::send_bytes(std::string_view bytes) {
  return stream_ != nullptr && stream_->send_bytes(bytes);
}

void BegunExchange::on_room(std::function<void()> callback) {
  if (stream_ != nullptr) stream_->on_room(std::move(callback));
}

void BegunExchange::finish() {
  if (stream_ != nullptr) stream_->finish();
}

}  // namespace lambent::frontend
