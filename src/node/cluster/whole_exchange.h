// WholeExchange: a request whose body has come, as the stream that http_relay relays, and its
// answer on its way to the client's responder. And a responder that gives its answer to a callback.
// Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/http/exchange.h"
#include "core/http/replayed_body.h"
#include "core/http/server.h"
#include "core/http/streamed_exchange.h"

namespace lambent::cluster {

class WholeExchange final : public http::Responder::Exchange, public http::StreamedExchange {
 public:
  // `keeps`: an answer with this head is none for the client. Shared because the body may be sent
  // again to another node, and the client is answered by whichever of them answers.
  WholeExchange(std::shared_ptr<const std::string> body, std::shared_ptr<http::Responder> client,
                std::function<bool(const http::Response&)> keeps);

  // Whether the client has anything of an answer.
  bool passed_on() const { return passed_on_; }
  // Whether an answer was kept from it, and of which status.
  bool kept() const { return kept_status_ != 0; }
  int kept_status() const { return kept_status_; }

  void send(http::Response response) override;
  void start_chunked(http::Response head) override { start(std::move(head), std::nullopt); }
  bool send_chunk(std::string_view data) override { return send_bytes(data); }
  void finish_chunked() override { finish(); }
  void on_disconnect(std::function<void()> callback) override;
  http::StreamedExchange* stream() override { return this; }
  void abandon() override {}

  void receive(Sink sink) override { body_.receive(std::move(sink)); }
  void hold(bool held) override { body_.hold(held); }
  void start(http::Response head, std::optional<uint64_t> size) override;
  // A whole request asks for no other protocol.
  void switch_protocols(http::Response) override {}
  bool send_bytes(std::string_view bytes) override;
  void on_room(std::function<void()>) override {}
  void finish() override;

 private:
  http::ReplayedBody body_;
  const std::shared_ptr<http::Responder> client_;
  const std::function<bool(const http::Response&)> keeps_;
  std::optional<http::Response> collected_;  // of an answer whose size is known
  bool passed_on_ = false;
  int kept_status_ = 0;  // 0: none was kept
};

// Its answer, whole, goes to `done`, exactly once; nothing of one that was dropped or cut off.
http::Responder responder_to(std::function<void(std::optional<http::Response>)> done);

}  // namespace lambent::cluster
