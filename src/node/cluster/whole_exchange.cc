#include "node/cluster/whole_exchange.h"

#include <utility>

#include "core/http/response_head.h"

namespace lambent::cluster {
namespace {

constexpr std::string_view kEventType = ":event-type";

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
                             std::shared_ptr<http::Responder> client, Options options)
    : body_(std::move(body)), client_(std::move(client)), options_(std::move(options)) {}

WholeExchange::WholeExchange(std::shared_ptr<const std::string> body,
                             std::shared_ptr<http::Responder> client)
    : WholeExchange(std::move(body), std::move(client), Options()) {}

void WholeExchange::send(http::Response response) {
  passed_on_ = true;
  client_->send(std::move(response));
}

void WholeExchange::on_disconnect(std::function<void()> callback) {
  client_->on_disconnect(std::move(callback));
}

void WholeExchange::start(http::Response head, std::optional<uint64_t> size) {
  if (size || http::is_bodiless(head.status)) {
    collected_ = std::move(head);
    return;
  }
  if (options_.last_event && head.headers.get("Content-Type") == http::kEventStreamType) {
    events_.emplace();
    last_event_type_ = options_.last_event(Error()).header(kEventType);
  }
  passed_on_ = true;
  answer_ = client_->answer_stream();
  if (answer_ == nullptr) return client_->start_chunked(std::move(head));
  answer_->on_room([weak = weak_from_this()] {
    const auto live = weak.lock();
    if (live == nullptr) return;
    const auto room = live->room_;
    if (room) room();
  });
  if (events_) answer_->end_at_half_close();
  answer_->start(std::move(head), std::nullopt);
}

std::string WholeExchange::whole_frames(std::string_view bytes) {
  std::string whole;
  if (is_broken_) return whole;
  events_->feed(bytes);
  while (!is_broken_) {
    const auto frame = events_->next();
    is_broken_ = !frame.ok();
    if (!frame.ok() || !*frame) break;
    has_last_event_ = has_last_event_ || (*frame)->header(kEventType) == last_event_type_;
    whole += http::encode_frame(**frame);
  }
  return whole;
}

bool WholeExchange::send_bytes(std::string_view bytes) {
  came_ += bytes.size();
  if (came_ > options_.most_bytes) {
    collected_.reset();
    cut_off({ErrorCode::kUnavailable, "the answer is longer than any that was asked for"});
    return true;
  }
  if (collected_) {
    collected_->body += bytes;
    return true;
  }
  std::string frames;
  if (events_) {
    frames = whole_frames(bytes);
    // The head leaves with no bytes.
    if (frames.empty() && !bytes.empty()) return true;
    bytes = frames;
  }
  if (answer_ != nullptr) return answer_->send_bytes(bytes);
  // A client that is gone is told of by its disconnect.
  (void)client_->send_chunk(bytes);
  return true;
}

void WholeExchange::finish() {
  if (collected_) {
    passed_on_ = true;
    return client_->send(*std::exchange(collected_, std::nullopt));
  }
  if (events_ && !has_last_event_) {
    return cut_off({ErrorCode::kUnavailable, "the node that ran the function ended its answer"});
  }
  if (auto* answer = std::exchange(answer_, nullptr)) return answer->finish();
  client_->finish_chunked();
}

void WholeExchange::cut_off(const Error& error) {
  auto* const answer = std::exchange(answer_, nullptr);
  const bool can_say = events_ && !is_broken_ && answer != nullptr;
  if (!can_say) {
    *client_ = http::Responder(nullptr);
    return;
  }
  if (!has_last_event_) (void)answer->send_bytes(http::encode_frame(options_.last_event(error)));
  answer->finish();
}

http::Responder responder_to(std::function<void(std::optional<http::Response>)> done) {
  return http::Responder(std::make_shared<Collector>(std::move(done)));
}

}  // namespace lambent::cluster
