#include "node/cluster/whole_exchange.h"

#include <utility>

#include "core/http/response_head.h"

namespace lambent::cluster {
namespace {

class Collector final : public http::Responder::Exchange {
 public:
  explicit Collector(std::function<void(std::optional<http::Response>)> done)
      : done_(std::move(done)) {}

  void send(http::Response response) override { end(std::move(response)); }
  void start_chunked(http::Response head) override { answer_ = std::move(head); }
  bool send_chunk(std::string_view data) override {
    answer_.body += data;
    return true;
  }
  void finish_chunked() override { end(std::move(answer_)); }
  void on_disconnect(std::function<void()>) override {}
  void abandon() override { end(std::nullopt); }

 private:
  void end(std::optional<http::Response> answer) {
    if (const auto done = std::exchange(done_, nullptr)) done(std::move(answer));
  }

  std::function<void(std::optional<http::Response>)> done_;
  http::Response answer_;
};

}  // namespace

WholeExchange::WholeExchange(std::shared_ptr<const std::string> body,
                             std::shared_ptr<http::Responder> client,
                             std::function<bool(const http::Response&)> keeps)
    : body_(std::move(body)), client_(std::move(client)), keeps_(std::move(keeps)) {}

void WholeExchange::send(http::Response response) {
  passed_on_ = true;
  client_->send(std::move(response));
}

void WholeExchange::on_disconnect(std::function<void()> callback) {
  client_->on_disconnect(std::move(callback));
}

void WholeExchange::start(http::Response head, std::optional<uint64_t> size) {
  kept_status_ = keeps_ && keeps_(head) ? head.status : 0;
  if (kept()) return;
  if (size || http::is_bodiless(head.status)) {
    collected_ = std::move(head);
    return;
  }
  passed_on_ = true;
  client_->start_chunked(std::move(head));
}

bool WholeExchange::send_bytes(std::string_view bytes) {
  if (kept()) return true;
  if (collected_) {
    collected_->body += bytes;
    return true;
  }
  // A client that is gone is told of by its disconnect.
  (void)client_->send_chunk(bytes);
  return true;
}

void WholeExchange::finish() {
  if (kept()) return;
  if (!collected_) return client_->finish_chunked();
  passed_on_ = true;
  client_->send(*std::exchange(collected_, std::nullopt));
}

http::Responder responder_to(std::function<void(std::optional<http::Response>)> done) {
  return http::Responder(std::make_shared<Collector>(std::move(done)));
}

}  // namespace lambent::cluster
