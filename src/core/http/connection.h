// Connection: one client of a Server, from accept to close: reads requests, hands them to the
// handler one at a time, writes the answers. Lives on the loop thread, owned by its server.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/http/exchange.h"
#include "core/http/request_parser.h"
#include "core/http/response_head.h"
#include "core/http/server.h"
#include "core/http/stream.h"
#include "core/loop/event_loop.h"

namespace lambent::http {

class Connection;

// What all connections of a server share. Not owned; outlives them.
struct ConnectionContext {
  loop::EventLoop& loop;
  const ServerOptions& options;
  const Server::Handler& handler;
  DateLine date;
  // Bytes are read into here; what is not consumed at once is copied. Not written before it is
  // used: each sandbox has a server, whose requests are short, and pages without a byte in them
  // take no memory.
  static constexpr size_t kScratchSize = size_t{64} * 1024;
  std::unique_ptr<char[]> scratch_bytes;
  std::span<char> scratch() { return {scratch_bytes.get(), kScratchSize}; }
  bool draining = false;     // a connection closes after its next answer
  bool closes_idle = false;  // and at once where no request has begun
  // The connection is closed and may be destroyed, but not before the current callback returned.
  std::function<void(Connection&)> on_closed;
  size_t unfinished_bodies = 0;  // bytes, of all connections
  uint64_t dropped = 0;          // bytes, by all connections that linger
};

class Connection {
 public:
  Connection(ConnectionContext& context, std::unique_ptr<Stream> stream, Peer peer);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Answers 503 without waiting for a request, and closes; before a handshake it only closes.
  void refuse();
  // Closes if no request is being read or answered; a handshake is none.
  void close_if_idle();
  // Since when it has been between requests; kNever if it is not.
  Instant idle_since() const;
  // It only waits for its client to close.
  bool has_sent_all() const;
  // A copy of its socket; not valid if it cannot be handed over (Server::hand_over).
  OwnedFd copy_to_hand_over() const;
  // Parses and handles requests from `data`, keeping what has to wait for the current answer.
  void consume(std::string_view data);
  // Ends the connection now and, if asked to, tells the exchange.
  void close(bool tell_exchange);

 private:
  struct Exchange;
  enum class Phase { kReading, kHandling, kLingering, kClosed };
  enum class Waiting { kNothing, kHandshake, kIdle, kHead, kBody, kWrite, kLinger };

  void on_ready(loop::Readiness ready);
  void on_readable();
  // What read() gave instead of bytes.
  void on_no_input(Transfer::Kind kind);
  void on_end();
  void read_soon();
  void on_readable_while_busy();
  void probe();
  void handle_request();
  void wait_for_more_input();
  // Counts what this connection holds of a body that is still arriving.
  void count_unfinished_body(size_t bytes);
  void fail(int status, std::string_view reason);

  void send(Response response);
  bool send_chunk(std::string_view data);
  void write_piece(std::string head, std::string_view data);
  void abandon(bool started);
  std::string text_of(const Response& head, const HeadOptions& options);
  void await_stream();
  void feed_stream();
  void give_to_stream(std::string_view data);
  void fail_stream(int status, std::string_view reason);
  void cut_off();
  bool must_close() const;
  // Of a request that is answered before its body was wanted: what is here of it.
  void drop_unwanted_body();
  void finish_exchange(bool close);

  void write(std::string head, std::string body, std::shared_ptr<const void> lease = nullptr);
  void flush();
  void after_flush();
  void linger();
  void drop(size_t bytes);

  void watch_for(bool readable, bool writable);
  void set_deadline(Waiting what, Duration from_now);
  void forget_deadline();
  void on_timer();

  ConnectionContext& context_;
  std::unique_ptr<Stream> stream_;
  const Peer peer_;
  RequestParser parser_;
  loop::Watch watch_;
  Phase phase_ = Phase::kReading;
  bool watching_reads_ = true;
  bool watching_writes_ = false;
  bool peer_finished_sending_ = false;
  bool consuming_ = false;
  bool close_after_flush_ = false;
  bool linger_after_flush_ = false;
  bool reading_ = false;
  bool end_is_unsent_ = false;  // finish_sending() is to be called again

  // The request being handled. Shared with its Responder: either may end first.
  std::shared_ptr<Exchange> exchange_;
  std::string pending_input_;
  size_t unfinished_body_ = 0;
  uint64_t dropped_ = 0;  // of what came after the last answer

  struct Unsent {
    std::string bytes;
    std::shared_ptr<const void> lease;  // the response's
  };
  std::deque<Unsent> outbox_;
  size_t outbox_offset_ = 0;  // in the first one
  size_t unsent_ = 0;

  Waiting waiting_ = Waiting::kNothing;
  Instant deadline_ = kNever;
  Instant body_began_{};        // of a request whose body is kept
  Instant timer_due_ = kNever;  // never before deadline_ is over; kNever if no timer is armed
  loop::TimerId timer_;
  loop::TimerId soon_;
};

}  // namespace lambent::http
