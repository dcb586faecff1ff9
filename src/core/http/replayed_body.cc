#include "core/http/replayed_body.h"

#include <string_view>
#include <utility>

#include "core/http/limits.h"

namespace lambent::http {

struct ReplayedBody::State {
  std::shared_ptr<const std::string> body;
  StreamedExchange::Sink sink = {};
  size_t given = 0;
  bool is_held = false;
  bool is_giving = false;
  bool is_over = false;

  bool may_give() const { return sink.on_end && !is_held && !is_over; }

  void give() {
    if (std::exchange(is_giving, true)) return;
    while (may_give() && given < body->size()) {
      const std::string_view piece =
          std::string_view(*body).substr(given, limits::kRelayWindow.count);
      given += piece.size();
      sink.on_bytes(piece);
    }
    is_giving = false;
    if (!may_give()) return;
    is_over = true;
    body.reset();
    sink.on_end();
  }
};

ReplayedBody::ReplayedBody(std::shared_ptr<const std::string> body)
    : state_(std::make_shared<State>(State{.body = std::move(body)})) {}

ReplayedBody::~ReplayedBody() { state_->is_over = true; }

void ReplayedBody::receive(StreamedExchange::Sink sink) {
  const auto state = state_;
  state->sink = std::move(sink);
  state->give();
}

void ReplayedBody::hold(bool held) {
  const auto state = state_;
  state->is_held = held;
  state->give();
}

}  // namespace lambent::http
