// ReplayedExchange: a request whose body was collected and perhaps replaced, as a stream for those
// who relay it; its answer goes on to the client as it comes, or whole to a callback. Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/http/exchange.h"
#include "core/http/replayed_body.h"
#include "core/http/server.h"
#include "core/http/streamed_exchange.h"

namespace lambent::frontend {

class ReplayedExchange final : public http::Responder::Exchange, public http::StreamedExchange {
 public:
  // Gets an answer, whole, and the client to send another one to. Once; not of an answer that was
  // cut off, after which the client gets 500.
  using Whole = std::function<void(http::Responder client, Result<http::Response> answer)>;
  // Whether there is memory for so many bytes more of an answer; what was taken is the callee's to
  // give back.
  using Admits = std::function<bool(size_t bytes)>;

  // The answer is the client's as it comes. `held` is released when the exchange ends: what the
  // body, wherever it lies by then, is counted with.
  ReplayedExchange(std::string body, http::Responder client, std::shared_ptr<const void> held)
      : body_(std::make_shared<const std::string>(std::move(body))),
        client_(std::move(client)),
        stream_(client_.stream()),
        held_(std::move(held)) {}
  // The answer goes to `done`: UNAVAILABLE if `admits` once said no.
  ReplayedExchange(std::string body, http::Responder client, std::shared_ptr<const void> held,
                   Admits admits, Whole done)
      : ReplayedExchange(std::move(body), std::move(client), std::move(held)) {
    admits_ = std::move(admits);
    done_ = std::move(done);
    collects_ = true;
  }

  void send(http::Response response) override;
  void start_chunked(http::Response head) override { start(std::move(head), std::nullopt); }
  bool send_chunk(std::string_view data) override { return send_bytes(data); }
  void finish_chunked() override { finish(); }
  void on_disconnect(std::function<void()> callback) override {
    client_.on_disconnect(std::move(callback));
  }
  http::StreamedExchange* stream() override { return this; }
  void abandon() override;

  void receive(Sink sink) override { body_.receive(std::move(sink)); }
  void hold(bool held) override { body_.hold(held); }
  // It is here.
  void expect_whole(bool) override {}
  void start(http::Response head, std::optional<uint64_t> size) override;
  // It asked for no other protocol.
  void switch_protocols(http::Response) override {}
  bool send_bytes(std::string_view bytes) override;
  void on_room(std::function<void()> callback) override;
  void finish() override;

 private:
  http::ReplayedBody body_;
  http::Responder client_;
  http::StreamedExchange* stream_;  // null: the client's answer goes by its responder
  const std::shared_ptr<const void> held_;
  bool collects_ = false;
  Admits admits_;
  Whole done_;
  http::Response answer_;  // of one that is collected
  bool is_too_much_ = false;
};

}  // namespace lambent::frontend
