#include "node/cluster/resendable_exchange.h"

#include <utility>

#include "core/http/limits.h"

namespace lambent::cluster {
namespace {

// Who answers at last: its end is the client's, whatever nodes still have of the exchange.
class LastExchange final : public http::Responder::Exchange {
 public:
  LastExchange(std::shared_ptr<ResendableExchange> inner, std::shared_ptr<http::Responder> client)
      : inner_(std::move(inner)), client_(std::move(client)) {}

  void send(http::Response response) override { inner_->send(std::move(response)); }
  void start_chunked(http::Response head) override { inner_->start_chunked(std::move(head)); }
  bool send_chunk(std::string_view data) override { return inner_->send_chunk(data); }
  void finish_chunked() override { inner_->finish_chunked(); }
  void on_disconnect(std::function<void()> callback) override {
    inner_->on_disconnect(std::move(callback));
  }
  http::StreamedExchange* stream() override { return inner_->stream(); }
  void abandon() override { const http::Responder over = std::move(*client_); }

 private:
  const std::shared_ptr<ResendableExchange> inner_;
  const std::shared_ptr<http::Responder> client_;
};

}  // namespace

http::Responder ResendableExchange::hand_on() {
  return http::Responder(std::make_shared<LastExchange>(shared_from_this(), client_));
}

bool ResendableExchange::refused() {
  if (!keeps_) return false;
  rest();
  http::StreamedExchange* stream = client_->stream();
  if (stream != nullptr && !has_ended_) stream->hold(true);
  return true;
}

void ResendableExchange::on_disconnect(std::function<void()> callback) {
  disconnected_ = std::move(callback);
  if (std::exchange(hears_client_, true)) return;
  client_->on_disconnect([weak = weak_from_this()] {
    const auto live = weak.lock();
    if (live == nullptr) return;
    live->is_gone_ = true;
    const auto tell = live->disconnected_;
    if (tell) tell();
  });
}

http::Headers ResendableExchange::trailers() const {
  http::StreamedExchange* stream = client_->stream();
  return stream != nullptr ? stream->trailers() : http::Headers();
}

bool ResendableExchange::may_give() const {
  return sink_.on_bytes && !is_held_ && client_->stream() != nullptr;
}

void ResendableExchange::release() {
  *kept_of_all_ -= std::exchange(counted_, 0);
  kept_ = {};
  given_ = 0;
}

void ResendableExchange::keep_no_more() {
  keeps_ = false;
  if (given_ == kept_.size()) release();
}

void ResendableExchange::receive(Sink sink) {
  const auto self = shared_from_this();  // the receiver may end it
  sink_ = std::move(sink);
  if (std::exchange(is_received_, true)) {
    given_ = 0;
    is_end_given_ = false;
    return give();
  }
  http::StreamedExchange* stream = client_->stream();
  if (stream == nullptr) return;
  const auto weak = weak_from_this();
  stream->receive({.on_bytes =
                       [weak](std::string_view bytes) {
                         if (const auto live = weak.lock()) live->take(bytes);
                       },
                   .on_end =
                       [weak] {
                         if (const auto live = weak.lock()) live->end();
                       }});
}

void ResendableExchange::take(std::string_view bytes) {
  const bool passes = may_give() && !is_giving_ && given_ == kept_.size();
  const bool is_too_much = kept_.size() + bytes.size() > kMostKeptOfBody.count ||
                           *kept_of_all_ + bytes.size() > kMostKeptBodies.count;
  // Between two receivers all of it is needed.
  if (keeps_ && is_too_much && sink_.on_bytes) keep_no_more();
  if (keeps_) {
    counted_ += bytes.size();
    *kept_of_all_ += bytes.size();
  }
  // What was on its way when the client was stopped is kept in any case.
  if (keeps_ || !passes) kept_ += bytes;
  if (!passes) return;
  given_ = kept_.size();
  sink_.on_bytes(bytes);
}

void ResendableExchange::end() {
  has_ended_ = true;
  give();
}

void ResendableExchange::hold(bool held) {
  is_held_ = held;
  if (!held) return give();
  http::StreamedExchange* stream = client_->stream();
  if (stream != nullptr && !has_ended_) stream->hold(true);
}

void ResendableExchange::give() {
  const auto self = shared_from_this();
  if (std::exchange(is_giving_, true)) return;
  while (may_give() && given_ < kept_.size()) {
    const std::string piece = kept_.substr(given_, limits::kRelayWindow.count);
    given_ += piece.size();
    sink_.on_bytes(piece);
  }
  is_giving_ = false;
  if (!may_give()) return;
  if (!keeps_) release();
  // A client that is held is not seen to go.
  client_->stream()->hold(false);
  if (has_ended_ && !std::exchange(is_end_given_, true)) sink_.on_end();
}

void ResendableExchange::expect_whole(bool expects) {
  if (http::StreamedExchange* stream = client_->stream()) stream->expect_whole(expects);
}

void ResendableExchange::start(http::Response head, std::optional<uint64_t> size) {
  keep_no_more();
  if (http::StreamedExchange* stream = client_->stream()) stream->start(std::move(head), size);
}

void ResendableExchange::switch_protocols(http::Response head) {
  keep_no_more();
  // What follows is no body: it is received as what comes now.
  has_ended_ = false;
  is_end_given_ = false;
  is_received_ = false;
  if (http::StreamedExchange* stream = client_->stream()) {
    stream->switch_protocols(std::move(head));
  }
}

bool ResendableExchange::send_bytes(std::string_view bytes) {
  http::StreamedExchange* stream = client_->stream();
  return stream != nullptr && stream->send_bytes(bytes);
}

void ResendableExchange::on_room(std::function<void()> callback) {
  if (http::StreamedExchange* stream = client_->stream()) stream->on_room(std::move(callback));
}

void ResendableExchange::finish() {
  if (http::StreamedExchange* stream = client_->stream()) stream->finish();
}

void ResendableExchange::end_at_half_close() {
  if (http::StreamedExchange* stream = client_->stream()) stream->end_at_half_close();
}

}  // namespace lambent::cluster
