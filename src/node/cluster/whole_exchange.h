// WholeExchange: a request whose body has come, as the stream that http_relay relays, and its
// answer on its way to the client's responder. And a responder that gives its answer to a callback.
// Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/http/event_stream.h"
#include "core/http/exchange.h"
#include "core/http/replayed_body.h"
#include "core/http/server.h"
#include "core/http/streamed_exchange.h"

namespace lambent::cluster {

class WholeExchange final : public http::Responder::Exchange,
                            public http::StreamedExchange,
                            public std::enable_shared_from_this<WholeExchange> {
 public:
  struct Options {
    // As ForwardCall::last_event.
    std::function<http::EventFrame(const Error&)> last_event = {};
    // An answer with a longer body is cut off.
    uint64_t most_bytes = UINT64_MAX;
  };
  // Shared because the body may be sent again to another node, and the client is answered by
  // whichever of them answers.
  WholeExchange(std::shared_ptr<const std::string> body, std::shared_ptr<http::Responder> client,
                Options options);
  // Each answer is for the client, as it is.
  WholeExchange(std::shared_ptr<const std::string> body, std::shared_ptr<http::Responder> client);

  // Whether the client has anything of an answer.
  bool passed_on() const { return passed_on_; }
  // The rest of the answer does not come: a stream of events gets its last one, which says why, and
  // of any other its client sees that it is cut off.
  void cut_off(const Error& error);

  void send(http::Response response) override;
  void start_chunked(http::Response head) override { start(std::move(head), std::nullopt); }
  bool send_chunk(std::string_view data) override { return send_bytes(data); }
  void finish_chunked() override { finish(); }
  void on_disconnect(std::function<void()> callback) override;
  http::StreamedExchange* stream() override { return this; }
  void abandon() override {}

  void receive(Sink sink) override { body_.receive(std::move(sink)); }
  void hold(bool held) override { body_.hold(held); }
  // It is here.
  void expect_whole(bool) override {}
  void start(http::Response head, std::optional<uint64_t> size) override;
  // A whole request asks for no other protocol.
  void switch_protocols(http::Response) override {}
  bool send_bytes(std::string_view bytes) override;
  void on_room(std::function<void()> callback) override { room_ = std::move(callback); }
  void finish() override;

 private:
  // Those of its frames that are whole: a client gets no part of one.
  std::string whole_frames(std::string_view bytes);

  http::ReplayedBody body_;
  const std::shared_ptr<http::Responder> client_;
  const Options options_;
  std::optional<http::Response> collected_;  // of an answer whose size is known
  // The client's way, of an answer whose size is not; null: there is none, or it is over.
  http::StreamedExchange* answer_ = nullptr;
  std::function<void()> room_;
  std::optional<http::EventStreamDecoder> events_;  // of an answer that is one
  std::string last_event_type_;
  bool is_broken_ = false;  // what came is no event stream
  bool has_last_event_ = false;
  bool passed_on_ = false;
  uint64_t came_ = 0;  // bytes of the body
};

// Its answer, whole, goes to `done`, exactly once; nothing of one that was dropped or cut off.
http::Responder responder_to(std::function<void(std::optional<http::Response>)> done);

}  // namespace lambent::cluster
