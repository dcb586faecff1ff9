// A client's side of a request that streams, for tests of those who answer. Included by tests only;
// one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/http/exchange.h"
#include "core/http/streamed_exchange.h"

namespace lambent::frontend {

// A client's side of a request whose body arrives in pieces, and of its answer.
struct StreamClient {
  std::optional<http::Response> response;
  std::string body;
  bool finished = false;
  bool abandoned = false;
  bool has_room = true;
  bool held = false;
  bool is_expected_whole = false;
  http::StreamedExchange::Sink sink;
  std::function<void()> room;
  std::function<void()> disconnect;
};

class StreamExchange final : public http::Responder::Exchange, public http::StreamedExchange {
 public:
  explicit StreamExchange(std::shared_ptr<StreamClient> client) : client_(std::move(client)) {}
  void send(http::Response response) override {
    client_->body = response.body;
    client_->response = std::move(response);
    client_->finished = true;
  }
  void start_chunked(http::Response) override {}
  bool send_chunk(std::string_view) override { return false; }
  void finish_chunked() override {}
  void on_disconnect(std::function<void()> callback) override {
    client_->disconnect = std::move(callback);
  }
  http::StreamedExchange* stream() override { return this; }
  void abandon() override { client_->abandoned = !client_->finished; }
  void receive(Sink sink) override { client_->sink = std::move(sink); }
  void hold(bool held) override { client_->held = held; }
  void expect_whole(bool expects) override { client_->is_expected_whole = expects; }
  void start(http::Response head, std::optional<uint64_t>) override {
    client_->response = std::move(head);
  }
  void switch_protocols(http::Response) override {}
  bool send_bytes(std::string_view bytes) override {
    client_->body += bytes;
    return client_->has_room;
  }
  void on_room(std::function<void()> callback) override { client_->room = std::move(callback); }
  void finish() override { client_->finished = true; }

 private:
  // Shared with the test, which looks on.
  std::shared_ptr<StreamClient> client_;
};

}  // namespace lambent::frontend
