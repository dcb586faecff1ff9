#include <utility>

#include "core/http/exchange.h"

namespace lambent::http {

Responder::Responder(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}

Responder& Responder::operator=(Responder&& other) noexcept {
  if (this != &other) {
    if (exchange_ != nullptr) exchange_->abandon();
    exchange_ = std::move(other.exchange_);
  }
  return *this;
}

Responder::~Responder() {
  if (exchange_ != nullptr) exchange_->abandon();
}

void Responder::send(Response response) {
  if (exchange_ != nullptr) exchange_->send(std::move(response));
}

void Responder::start_chunked(Response head) {
  if (exchange_ != nullptr) exchange_->start_chunked(std::move(head));
}

bool Responder::send_chunk(std::string_view data) {
  return exchange_ != nullptr && exchange_->send_chunk(data);
}

void Responder::finish_chunked() {
  if (exchange_ != nullptr) exchange_->finish_chunked();
}

StreamedExchange* Responder::stream() {
  return exchange_ != nullptr ? exchange_->stream() : nullptr;
}

StreamedExchange* Responder::answer_stream() {
  return exchange_ != nullptr ? exchange_->answer_stream() : nullptr;
}

void Responder::on_disconnect(std::function<void()> callback) {
  if (exchange_ != nullptr) exchange_->on_disconnect(std::move(callback));
}

}  // namespace lambent::http
