#include "core/http/connection_exchange.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/http/acknowledge.h"

namespace lambent::http {
namespace {

// A client that reads a chunked answer so slowly that more than this waits for it is closed.
constexpr size_t kMostUnsent = 1024 * 1024;
constexpr int kBuffersPerWrite = 16;
// What is read and dropped after the last answer, in bodies of the largest size: of one connection,
// so that who sends a little too much gets to read why it was refused, and of all that linger.
constexpr uint64_t kDroppedBodies = 2;
constexpr uint64_t kDroppedBodiesOfAll = 4;

}  // namespace

Connection::Connection(ConnectionContext& context, std::unique_ptr<Stream> stream, Peer peer)
    : context_(context),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      parser_({.max_headers = context.options.max_headers.count,
               .max_body = context.options.max_body.count,
               .streams = &context.options.streams}) {
  watch_ = context_.loop.watch(stream_->fd(), true, false,
                               [this](loop::Readiness ready) { on_ready(ready); });
  if (stream_->is_ready()) {
    set_deadline(Waiting::kIdle, context_.options.idle_timeout);
  } else {
    set_deadline(Waiting::kHandshake, context_.options.handshake_timeout);
  }
}

Connection::~Connection() {
  if (exchange_ != nullptr) exchange_->connection = nullptr;
  count_unfinished_body(0);
  context_.dropped -= dropped_;
  context_.loop.cancel(timer_);
  context_.loop.cancel(soon_);
}

void Connection::refuse() {
  if (!stream_->is_ready()) return close(false);
  fail(503, "too many connections");
}

void Connection::close_if_idle() {
  if (idle_since() != kNever) close(false);
}

bool Connection::has_sent_all() const {
  return phase_ == Phase::kClosed ||
         (phase_ == Phase::kLingering && outbox_.empty() && !end_is_unsent_);
}

OwnedFd Connection::copy_to_hand_over() const {
  if (peer_.transport == Transport::kTls || context_.draining || peer_finished_sending_ ||
      !outbox_.empty() || !pending_input_.empty()) {
    return {};
  }
  const bool waits = phase_ == Phase::kHandling && !exchange_->started && !exchange_->streams &&
                     parser_.status() == RequestParser::Status::kComplete && parser_.keep_alive() &&
                     !parser_.is_http_1_0();
  if (!waits && idle_since() == kNever) return {};
  return OwnedFd(fcntl(stream_->fd(), F_DUPFD_CLOEXEC, 0));
}

Instant Connection::idle_since() const {
  if (waiting_ == Waiting::kHandshake) return deadline_ - context_.options.handshake_timeout;
  const bool idle = phase_ == Phase::kReading && waiting_ == Waiting::kIdle &&
                    parser_.status() == RequestParser::Status::kIdle && outbox_.empty();
  return idle ? deadline_ - context_.options.idle_timeout : kNever;
}

void Connection::on_ready(loop::Readiness ready) {
  const bool has_unsent = !outbox_.empty() || end_is_unsent_;
  if (ready.writable && has_unsent) flush();
  if (phase_ == Phase::kClosed) return;
  // A stream may have to write before it can read on.
  if (ready.readable || (ready.writable && !has_unsent)) {
    if (phase_ == Phase::kHandling && exchange_->wants_input()) {
      feed_stream();
    } else if (phase_ == Phase::kHandling || !outbox_.empty()) {
      on_readable_while_busy();
    } else {
      on_readable();
    }
  } else if (ready.hung_up) {
    close(true);
  }
}

void Connection::on_readable() {
  const std::span<char> scratch = context_.scratch();
  reading_ = true;
  do {
    const Transfer got = stream_->read(scratch);
    if (got.kind != Transfer::Kind::kMoved) {
      on_no_input(got.kind);
      break;
    }
    if (phase_ == Phase::kLingering) {
      drop(got.bytes);
    } else {
      consume(std::string_view(scratch.data(), got.bytes));
    }
  } while ((phase_ == Phase::kReading || phase_ == Phase::kLingering) && outbox_.empty() &&
           stream_->holds_input());
  reading_ = false;
}

void Connection::on_no_input(Transfer::Kind kind) {
  switch (kind) {
    case Transfer::Kind::kWaitsToRead:
    case Transfer::Kind::kWaitsToWrite:
      if (waiting_ == Waiting::kHandshake && stream_->is_ready()) {
        set_deadline(Waiting::kIdle, context_.options.idle_timeout);
      }
      watch_for(true, end_is_unsent_ || kind == Transfer::Kind::kWaitsToWrite);
      break;
    case Transfer::Kind::kForeign:
      fail(400, stream_->failure().message);
      break;
    case Transfer::Kind::kRefused:
      linger();
      break;
    default:
      on_end();
      break;
  }
}

// Between requests, or in the middle of one that can no longer be whole.
void Connection::on_end() {
  const bool truncated =
      phase_ == Phase::kReading && parser_.status() == RequestParser::Status::kBody;
  close(false);
  if (truncated && context_.options.on_truncated) context_.options.on_truncated(parser_.request());
}

// The socket does not tell of what the stream holds already.
void Connection::read_soon() {
  context_.loop.cancel(soon_);
  soon_ = context_.loop.call_after(Duration::zero(), [this] {
    if (phase_ == Phase::kReading && outbox_.empty())
      on_readable();
    else if (phase_ == Phase::kHandling)
      feed_stream();
  });
}

// The client sends more, or ends, while its last request is being answered. We look without
// reading: more input waits in the kernel, which is the client's back pressure.
void Connection::on_readable_while_busy() {
  const Transfer got = stream_->peek();
  if (got.kind == Transfer::Kind::kWaitsToRead || got.kind == Transfer::Kind::kWaitsToWrite) {
    watch_for(true, !outbox_.empty() || got.kind == Transfer::Kind::kWaitsToWrite);
    return;
  }
  if (got.kind == Transfer::Kind::kEnd && parser_.status() == RequestParser::Status::kBody) {
    // Else it is seen again when the rest of its body is read.
    if (parser_.body_left() > pending_input_.size()) return close(true);
    return watch_for(false, watching_writes_);
  }
  // Its end would be told by nothing else, for as long as the answer rests.
  const bool ends_it = exchange_ != nullptr && exchange_->started &&
                       (exchange_->streams || exchange_->ends_at_half_close);
  if (got.kind == Transfer::Kind::kEnd && ends_it) {
    return close(true);
  }
  peer_finished_sending_ = got.kind == Transfer::Kind::kEnd;
  if (got.kind != Transfer::Kind::kMoved &&
      !(peer_finished_sending_ && context_.options.serve_half_closed)) {
    close(true);
    return;
  }
  watch_for(false, watching_writes_);
  if (peer_finished_sending_) probe();
}

// The end of the client's sending looks the same whether it waits for its answer or is gone. So we
// write something that a waiting client must skip: the machine of one that is gone answers with a
// reset, which ends the connection. HTTP/1.0 knows nothing to skip.
void Connection::probe() {
  if (phase_ != Phase::kHandling || exchange_->started || parser_.is_http_1_0()) return;
  write("HTTP/1.1 100 Continue\r\n\r\n", {});
}

void Connection::consume(std::string_view data) {
  std::string after_stream;
  consuming_ = true;
  while (phase_ == Phase::kReading && outbox_.empty() && !data.empty()) {
    const RequestParser::Status status = parser_.feed(data);
    if (parser_.streams() && status != RequestParser::Status::kFailed) {
      // Its body is there for StreamedExchange::receive().
      pending_input_.assign(std::exchange(data, {}));
      handle_request();
      if (phase_ != Phase::kReading) break;
      after_stream = std::exchange(pending_input_, {});
      data = after_stream;
    } else if (status == RequestParser::Status::kComplete) {
      handle_request();
    } else if (status == RequestParser::Status::kFailed) {
      fail(parser_.failure().status, parser_.failure().reason);
    }
  }
  consuming_ = false;
  if (phase_ == Phase::kClosed || phase_ == Phase::kLingering) return;
  if (!data.empty()) pending_input_.assign(data);
  if (phase_ == Phase::kReading && outbox_.empty()) wait_for_more_input();
}

void Connection::count_unfinished_body(size_t bytes) {
  context_.unfinished_bodies += bytes - unfinished_body_;
  unfinished_body_ = bytes;
}

void Connection::handle_request() {
  count_unfinished_body(0);
  phase_ = Phase::kHandling;
  forget_deadline();
  exchange_ = std::make_shared<Exchange>(*this);
  exchange_->streams = parser_.streams();
  exchange_->head_only = parser_.request().method == "HEAD";
  parser_.request().peer = peer_;
  if (const PeerCertificate* certificate = stream_->peer_certificate()) {
    parser_.request().peer.certificate = *certificate;
  }
  context_.handler(std::move(parser_.request()), Responder(exchange_));
}

void Connection::wait_for_more_input() {
  if (peer_finished_sending_ ||
      (context_.closes_idle && parser_.status() == RequestParser::Status::kIdle)) {
    close(false);
    return;
  }
  watch_for(true, false);
  if (!reading_ && stream_->holds_input()) read_soon();
  if (parser_.status() != RequestParser::Status::kIdle) acknowledge(*stream_);
  switch (parser_.status()) {
    case RequestParser::Status::kHead:
      if (waiting_ != Waiting::kHead) set_deadline(Waiting::kHead, context_.options.header_timeout);
      break;
    case RequestParser::Status::kBody:
      count_unfinished_body(parser_.request().body.size());
      if (context_.unfinished_bodies > context_.options.max_unfinished_bodies.count) {
        fail(503, "too many unfinished request bodies at once");
        return;
      }
      if (waiting_ != Waiting::kBody) body_began_ = context_.loop.now();
      set_deadline(Waiting::kBody, context_.options.time_for_body(parser_.request().body.size()) -
                                       (context_.loop.now() - body_began_));
      if (parser_.take_expects_continue()) write("HTTP/1.1 100 Continue\r\n\r\n", {});
      break;
    default:
      set_deadline(Waiting::kIdle, context_.options.idle_timeout);
      break;
  }
}

void Connection::fail(int status, std::string_view reason) {
  Response response;
  if (context_.options.error_response) {
    response = context_.options.error_response(status, reason, parser_.request());
  } else {
    response.headers.add("Content-Type", "text/plain");
    response.body = std::string(reason) + "\n";
  }
  response.status = status;
  count_unfinished_body(0);
  std::string().swap(parser_.request().body);  // we may linger for a while
  phase_ = Phase::kLingering;
  linger_after_flush_ = true;
  const HeadOptions head{.body_size = response.body.size(), .close = true};
  std::string text = encode_head(response, head, context_.date.at(context_.loop.now()));
  write(std::move(text), std::move(response.body));
}

bool Connection::must_close() const { return !parser_.keep_alive() || context_.draining; }

void Connection::send(Response response) {
  exchange_->disconnected = nullptr;
  drop_unwanted_body();
  const bool close_it = must_close() || parser_.status() != RequestParser::Status::kComplete;
  const HeadOptions head{
      .body_size = response.body.size(), .close = close_it, .http_1_0 = parser_.is_http_1_0()};
  std::string text = encode_head(response, head, context_.date.at(context_.loop.now()));
  if (exchange_->head_only || is_bodiless(response.status)) response.body.clear();
  write(std::move(text), std::move(response.body), std::move(response.lease));
  finish_exchange(close_it);
}

bool Connection::send_chunk(std::string_view data) {
  if (data.empty() || exchange_->head_only) return true;
  if (unsent_ > kMostUnsent) {
    close(false);
    return false;
  }
  // If writing fails, our false tells, and not the callback.
  const std::shared_ptr<Exchange> exchange = exchange_;
  std::function<void()> disconnected = std::exchange(exchange->disconnected, nullptr);
  write_piece(std::exchange(exchange->head_text, {}), data);
  if (phase_ == Phase::kClosed) return false;
  exchange->disconnected = std::move(disconnected);
  return true;
}

// Framed as the answer is; `head` goes before.
void Connection::write_piece(std::string head, std::string_view data) {
  if (data.empty()) return write(std::move(head), {});
  if (!exchange_->chunk_framing) {
    if (head.empty()) return write(std::string(data), {});
    return write(std::move(head), std::string(data));
  }
  char size[20];
  char* end = std::to_chars(size, size + 16, data.size(), 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  std::string body;
  body.reserve(data.size() + 2);
  body += data;
  body += "\r\n";
  head.append(size, end);
  write(std::move(head), std::move(body));
}

void Connection::abandon(bool started) {
  if (started) return cut_off();
  Response response;
  if (context_.options.error_response) {
    response = context_.options.error_response(500, "the request was dropped", parser_.request());
  }
  response.status = 500;
  send(std::move(response));
}

// The answer is on its way; goes on with the next request.
void Connection::finish_exchange(bool close_it) {
  if (phase_ == Phase::kClosed) return;
  exchange_->connection = nullptr;
  // What the callback holds is destroyed last: it may call back.
  const std::shared_ptr<Exchange> finished = std::move(exchange_);
  exchange_ = nullptr;
  phase_ = Phase::kReading;
  if (waiting_ == Waiting::kBody) forget_deadline();
  // Answered before all of its body was there: the rest is not worth reading.
  const bool is_whole = parser_.status() == RequestParser::Status::kComplete;
  close_it = close_it || !is_whole;
  parser_.next();
  if (close_it) {
    phase_ = Phase::kLingering;
    close_after_flush_ = true;
    if (!consuming_ && is_whole && pending_input_.empty() && outbox_.empty()) {
      close(false);
    } else if (outbox_.empty()) {
      linger();
    }
    return;
  }
  if (!consuming_ && outbox_.empty()) consume(std::exchange(pending_input_, {}));
}

void Connection::write(std::string head, std::string body, std::shared_ptr<const void> lease) {
  if (phase_ == Phase::kClosed) return;
  size_t sent = 0;
  if (outbox_.empty()) {
    const iovec parts[2] = {{head.data(), head.size()}, {body.data(), body.size()}};
    const Transfer written = stream_->write({parts, body.empty() ? size_t{1} : size_t{2}});
    if (written.kind == Transfer::Kind::kFailed) {
      close(true);
      return;
    }
    sent = written.bytes;
    if (sent == head.size() + body.size()) {
      if (linger_after_flush_) linger();
      return;
    }
    outbox_offset_ = sent < head.size() ? sent : sent - head.size();
  }
  unsent_ += head.size() + body.size() - sent;
  if (sent < head.size()) outbox_.push_back({std::move(head), nullptr});
  if (!body.empty()) outbox_.push_back({std::move(body), std::move(lease)});
  watch_for(watching_reads_, true);
  if (waiting_ != Waiting::kWrite) set_deadline(Waiting::kWrite, context_.options.stream_timeout);
}

void Connection::flush() {
  while (!outbox_.empty()) {
    iovec parts[kBuffersPerWrite];
    size_t count = 0;
    size_t offset = outbox_offset_;
    for (auto it = outbox_.begin(); it != outbox_.end() && count < kBuffersPerWrite; ++it) {
      parts[count++] = {it->bytes.data() + offset, it->bytes.size() - offset};
      offset = 0;
    }
    const Transfer written = stream_->write({parts, count});
    if (written.kind != Transfer::Kind::kMoved) {
      if (written.kind == Transfer::Kind::kFailed) close(true);
      return;
    }
    set_deadline(Waiting::kWrite, context_.options.stream_timeout);
    size_t left = written.bytes;
    unsent_ -= left;
    while (left > 0) {
      const size_t rest = outbox_.front().bytes.size() - outbox_offset_;
      if (left < rest) {
        outbox_offset_ += left;
        break;
      }
      left -= rest;
      outbox_.pop_front();
      outbox_offset_ = 0;
    }
  }
  after_flush();
}

void Connection::after_flush() {
  forget_deadline();
  watch_for(watching_reads_, false);
  if (linger_after_flush_ || close_after_flush_ || end_is_unsent_) {
    linger();
  } else if (phase_ == Phase::kReading) {
    consume(std::exchange(pending_input_, {}));
  } else if (phase_ == Phase::kHandling && exchange_->room) {
    const std::shared_ptr<Exchange> exchange = exchange_;
    exchange->room();
  }
}

// Our side is done, but the client may still be sending: closing now would make the kernel reset
// the connection and might destroy the answer before the client has read it.
void Connection::linger() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kLingering;
  end_is_unsent_ = !stream_->finish_sending();
  pending_input_.clear();
  watch_for(true, end_is_unsent_);
  set_deadline(Waiting::kLinger, context_.options.linger_timeout);
}

void Connection::drop(size_t bytes) {
  dropped_ += bytes;
  context_.dropped += bytes;
  const uint64_t body = context_.options.max_body.count;
  if (dropped_ > kDroppedBodies * body || context_.dropped > kDroppedBodiesOfAll * body) {
    close(false);
  }
}

void Connection::close(bool tell_exchange) {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  watch_.reset();
  context_.loop.cancel(timer_);
  context_.loop.cancel(soon_);
  timer_due_ = kNever;
  stream_.reset();
  outbox_.clear();
  count_unfinished_body(0);
  context_.dropped -= std::exchange(dropped_, 0);
  std::function<void()> disconnected;
  if (exchange_ != nullptr) {
    exchange_->connection = nullptr;
    if (tell_exchange) disconnected = std::exchange(exchange_->disconnected, nullptr);
  }
  context_.on_closed(*this);
  if (disconnected) disconnected();
}

void Connection::watch_for(bool readable, bool writable) {
  if (readable == watching_reads_ && writable == watching_writes_) return;
  watching_reads_ = readable;
  watching_writes_ = writable;
  watch_.update(readable, writable);
}

// The timer is only moved forward when a deadline comes nearer; most of the time a later deadline
// is just noted, and the timer finds it when it fires.
void Connection::set_deadline(Waiting what, Duration from_now) {
  waiting_ = what;
  deadline_ = context_.loop.now() + from_now;
  if (timer_due_ <= deadline_) return;
  if (timer_due_ != kNever) context_.loop.cancel(timer_);
  timer_due_ = deadline_;
  timer_ = context_.loop.call_at(deadline_, [this] { on_timer(); });
}

void Connection::forget_deadline() {
  waiting_ = Waiting::kNothing;
  deadline_ = kNever;
}

void Connection::on_timer() {
  timer_due_ = kNever;
  if (deadline_ == kNever) return;
  if (context_.loop.now() < deadline_) {
    timer_due_ = deadline_;
    timer_ = context_.loop.call_at(deadline_, [this] { on_timer(); });
    return;
  }
  if (waiting_ == Waiting::kHead) {
    fail(408, "the request headers took too long");
  } else if (waiting_ == Waiting::kBody && phase_ == Phase::kHandling) {
    fail_stream(408, "the request body took too long");
  } else if (waiting_ == Waiting::kBody) {
    fail(408, "the request body took too long");
  } else {
    close(true);
  }
}

}  // namespace lambent::http
