// Connection's part for requests whose bodies and answers are streams.
#include <sys/socket.h>

#include <algorithm>

#include "core/http/acknowledge.h"
#include "core/http/connection_exchange.h"

namespace lambent::http {
namespace {

// A client that is further behind with an answer holds its sender back.
constexpr size_t kStreamWindow = 64 * 1024;

}  // namespace

void Connection::Exchange::write_quietly(const std::function<void(Connection&)>& write) {
  loop::EventLoop& loop = connection->context_.loop;
  std::function<void()> tell = std::exchange(disconnected, nullptr);
  write(*connection);
  if (connection != nullptr) {
    disconnected = std::move(tell);
  } else if (tell) {
    loop.call_after(Duration::zero(), std::move(tell));
  }
}

bool Connection::Exchange::wants_input() const {
  if (connection == nullptr || !receiving || held || connection->peer_finished_sending_) {
    return false;
  }
  return switched || connection->parser_.status() == RequestParser::Status::kBody;
}

void Connection::Exchange::receive(Sink its_sink) {
  if (connection == nullptr) return;
  // The sink may answer, after which neither the connection nor the responder has this any more.
  const std::shared_ptr<Exchange> self = connection->exchange_;
  sink = std::move(its_sink);
  receiving = true;
  if (connection->parser_.take_expects_continue()) {
    write_quietly([](Connection& its) { its.write("HTTP/1.1 100 Continue\r\n\r\n", {}); });
  }
  if (!wants_input()) return;
  if (!connection->pending_input_.empty()) {
    const std::string pending = std::exchange(connection->pending_input_, {});
    connection->give_to_stream(pending);
  }
  if (wants_input()) connection->await_stream();
}

Headers Connection::Exchange::trailers() const {
  return connection != nullptr && streams ? connection->parser_.trailers() : Headers();
}

void Connection::Exchange::hold(bool holds) {
  if (connection == nullptr || held == holds) return;
  held = holds;
  if (!receiving) return;
  if (wants_input()) return connection->await_stream();
  if (connection->waiting_ == Waiting::kBody) connection->forget_deadline();
  // Of a client that has nothing more to send it is seen only so whether it goes.
  const bool has_all = !held && !switched && !connection->peer_finished_sending_;
  connection->watch_for(has_all, connection->watching_writes_);
}

void Connection::Exchange::expect_whole(bool expects) {
  if (connection == nullptr) return;
  kept_since = expects ? connection->context_.loop.now() : kNever;
  if (connection->waiting_ == Waiting::kBody) connection->set_deadline(Waiting::kBody, wait());
}

Duration Connection::Exchange::wait() const {
  const Duration progress = connection->context_.options.stream_timeout;
  if (kept_since == kNever) return progress;
  const Duration all = connection->context_.options.time_for_body(received);
  return std::min(progress, kept_since + all - connection->context_.loop.now());
}

void Connection::Exchange::start(Response head, std::optional<uint64_t> size) {
  if (connection == nullptr || started) return;
  started = true;
  left = size;
  const bool old = connection->parser_.is_http_1_0();
  chunk_framing = !size && !old;
  ends_with_connection = !size && old;
  head_only = head_only || is_bodiless(head.status);
  // No next request is promised to be read behind a body that its client may not send to its end.
  const RequestParser& parser = connection->parser_;
  const bool is_here =
      parser.status() != RequestParser::Status::kBody ||
      (!parser.is_chunked() && parser.body_left() <= connection->pending_input_.size());
  says_close = connection->must_close() || ends_with_connection || !is_here;
  HeadOptions options{.framing = size  ? BodyFraming::kSized
                                 : old ? BodyFraming::kToClose
                                       : BodyFraming::kChunked,
                      .body_size = size.value_or(0),
                      .close = says_close,
                      .http_1_0 = old};
  if (is_bodiless(head.status)) options.framing = BodyFraming::kSized;
  head_text = connection->text_of(head, options);
}

void Connection::Exchange::switch_protocols(Response head) {
  if (connection == nullptr || started) return;
  started = true;
  switched = true;
  ends_with_connection = true;
  head_text = connection->text_of(head, {.upgrade = true});
}

// work.
bool Connection::Exchange::send_bytes(std::string_view bytes) {
  if (connection == nullptr || !started) return false;
  if (left) {
    bytes = bytes.substr(0, *left);
    *left -= bytes.size();
  }
  if (head_only) bytes = {};
  if (bytes.empty() && head_text.empty()) return true;
  write_quietly([&](Connection& its) { its.write_piece(std::exchange(head_text, {}), bytes); });
  return connection != nullptr && connection->unsent_ <= kStreamWindow;
}

void Connection::Exchange::finish() {
  if (connection == nullptr || !started) return;
  disconnected = nullptr;
  room = nullptr;
  if (left.value_or(0) > 0 && !head_only) return connection->abandon(true);
  std::string rest = std::exchange(head_text, {});
  if (chunk_framing && !head_only) rest += "0\r\n\r\n";
  if (!rest.empty()) connection->write(std::move(rest), {});
  if (connection == nullptr) return;
  if (!switched) connection->drop_unwanted_body();
  connection->finish_exchange(connection->must_close() || ends_with_connection || says_close);
}

void Connection::drop_unwanted_body() {
  if (!exchange_->streams || parser_.status() != RequestParser::Status::kBody) return;
  std::string_view rest = pending_input_;
  (void)parser_.feed(rest);  // malformed, it is not complete, and no request is read behind it
  parser_.request().body.clear();
  pending_input_ = std::string(rest);
}

std::string Connection::text_of(const Response& head, const HeadOptions& options) {
  return encode_head(head, options, context_.date.at(context_.loop.now()));
}

void Connection::await_stream() {
  if (!exchange_->switched && waiting_ == Waiting::kNothing) {
    set_deadline(Waiting::kBody, exchange_->wait());
  }
  if (stream_->holds_input() || !pending_input_.empty()) {
    read_soon();
  } else {
    watch_for(true, watching_writes_);
    if (!exchange_->switched) acknowledge(*stream_);
  }
}

// For the sink: what was read behind the head first.
void Connection::feed_stream() {
  if (!exchange_->wants_input()) return;
  if (!pending_input_.empty()) {
    const std::string pending = std::exchange(pending_input_, {});
    give_to_stream(pending);
    if (phase_ != Phase::kHandling || exchange_ == nullptr || !exchange_->wants_input()) return;
  }
  if (!exchange_->switched && waiting_ == Waiting::kNothing) {
    set_deadline(Waiting::kBody, exchange_->wait());
  }
  const Transfer got = stream_->read(context_.scratch());
  const bool waits_to_write = got.kind == Transfer::Kind::kWaitsToWrite;
  if (got.kind == Transfer::Kind::kWaitsToRead || waits_to_write) {
    return watch_for(true, !outbox_.empty() || waits_to_write);
  }
  if (got.kind == Transfer::Kind::kEnd && exchange_->switched) {
    peer_finished_sending_ = true;
    watch_for(false, watching_writes_);
    return exchange_->sink.on_end();
  }
  if (got.kind != Transfer::Kind::kMoved) return close(true);
  if (waiting_ == Waiting::kBody) set_deadline(Waiting::kBody, exchange_->wait());
  watch_for(true, watching_writes_);
  const std::shared_ptr<Exchange> exchange = exchange_;
  give_to_stream(std::string_view(context_.scratch().data(), got.bytes));
  if (!exchange->wants_input()) return;
  if (stream_->holds_input()) read_soon();
  if (!exchange->switched && got.bytes < ConnectionContext::kScratchSize) acknowledge(*stream_);
}

void Connection::give_to_stream(std::string_view data) {
  // The sink may end the exchange, and with it this connection.
  const std::shared_ptr<Exchange> exchange = exchange_;
  if (exchange->switched) return exchange->sink.on_bytes(data);
  exchange->received += data.size();
  parser_.request().body.clear();
  const RequestParser::Status status = parser_.feed(data);
  if (status == RequestParser::Status::kFailed) {
    return fail_stream(parser_.failure().status, parser_.failure().reason);
  }
  const std::string piece = std::exchange(parser_.request().body, {});
  pending_input_.assign(data);  // of the next request
  if (status == RequestParser::Status::kComplete && waiting_ == Waiting::kBody) forget_deadline();
  if (!piece.empty()) exchange->sink.on_bytes(piece);
  if (status == RequestParser::Status::kComplete && exchange->connection != nullptr) {
    exchange->sink.on_end();
  }
}

// Of the client's making: it is told so if nothing of an answer was.
void Connection::fail_stream(int status, std::string_view reason) {
  const std::shared_ptr<Exchange> exchange = exchange_;
  const std::function<void()> disconnected = std::exchange(exchange->disconnected, nullptr);
  if (exchange->started) {
    close(false);
  } else {
    exchange->connection = nullptr;
    exchange_ = nullptr;
    fail(status, reason);
  }
  if (disconnected) context_.loop.call_after(Duration::zero(), disconnected);
}

// An end that looks like the answer's own must not be one.
void Connection::cut_off() {
  if (exchange_->ends_with_connection) {
    const struct linger at_once { .l_onoff = 1, .l_linger = 0 };
    setsockopt(stream_->fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  close(false);
}

}  // namespace lambent::http
