// Connection::Exchange: the request that a Connection handles, as its Responder sees it. Included
// by the two sources of Connection only.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "core/http/connection.h"
#include "core/http/streamed_exchange.h"

namespace lambent::http {

struct Connection::Exchange final : Responder::Exchange, StreamedExchange {
  explicit Exchange(Connection& its_connection) : connection(&its_connection) {}

  void send(Response response) override {
    if (connection != nullptr && !started) connection->send(std::move(response));
  }
  void start_chunked(Response head) override {
    start(std::move(head), std::nullopt);
    (void)send_bytes({});
  }
  bool send_chunk(std::string_view data) override {
    return connection != nullptr && started && connection->send_chunk(data);
  }
  void finish_chunked() override { finish(); }
  void on_disconnect(std::function<void()> callback) override {
    if (connection != nullptr) disconnected = std::move(callback);
  }
  void abandon() override {
    disconnected = nullptr;
    room = nullptr;
    if (connection != nullptr) connection->abandon(started);
  }
  StreamedExchange* stream() override { return streams ? this : nullptr; }
  StreamedExchange* answer_stream() override { return this; }

  void receive(Sink its_sink) override;
  Headers trailers() const override;
  void hold(bool holds) override;
  void expect_whole(bool expects) override;
  void start(Response head, std::optional<uint64_t> size) override;
  void switch_protocols(Response head) override;
  bool send_bytes(std::string_view bytes) override;
  void on_room(std::function<void()> callback) override { room = std::move(callback); }
  void end_at_half_close() override { ends_at_half_close = true; }
  void finish() override;

  // Writes; if that fails, the callback of the client's end comes in a later turn, because the
  // caller is in the middle of its own work.
  void write_quietly(const std::function<void(Connection&)>& write);
  // How long the next byte of the body may take. Of one that is connected.
  Duration wait() const;
  // Whether bytes of the client are for the sink, now.
  bool wants_input() const;

  Connection* connection;  // null once answered, or closed
  bool started = false;    // the head of an answer in pieces was sent
  bool chunk_framing = false;
  bool ends_with_connection = false;  // the answer
  bool says_close = false;            // its head
  bool head_only = false;
  bool ends_at_half_close = false;
  std::function<void()> disconnected;

  bool streams = false;
  bool receiving = false;
  bool held = false;
  Instant kept_since = kNever;   // the body, by those who need it whole
  size_t received = 0;           // of it
  bool switched = false;         // to another protocol
  std::string head_text;         // of the answer, until it leaves with what comes first
  std::optional<uint64_t> left;  // of an answer whose size was told
  Sink sink;
  std::function<void()> room;
};

}  // namespace lambent::http
