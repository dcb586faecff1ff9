// BegunExchange: a request that streams, of whose body the frontend reads the beginning before it
// knows the function. Its receiver then gets the body from its begin, and the rest as it arrives.
// Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/http/exchange.h"
#include "core/http/server.h"
#include "core/http/streamed_exchange.h"

namespace lambent::frontend {

class BegunExchange final : public http::Responder::Exchange,
                            public http::StreamedExchange,
                            public std::enable_shared_from_this<BegunExchange> {
 public:
  // Gets all that has come, when that is twice as much as the last time, and when it is the whole.
  // Once it returns true it is not called again; what it was given ends when the body is received.
  using Look = std::function<bool(std::string_view beginning, bool is_whole)>;
  // Whether there is memory for so many bytes more than `so_far`; if not, the answer to the client.
  using Admits = std::function<std::optional<http::Response>(size_t so_far, size_t more)>;
  // So many of the bytes that were admitted are not kept any more.
  using Release = std::function<void(size_t bytes)>;

  // Of a client whose request streams.
  BegunExchange(http::Responder client, Admits admits, Release release);
  ~BegunExchange() override;

  // Once. It lives until `look` has seen enough, the client is answered or it is gone.
  void read(Look look);

  void send(http::Response response) override { client_.send(std::move(response)); }
  void start_chunked(http::Response head) override { start(std::move(head), std::nullopt); }
  bool send_chunk(std::string_view data) override { return send_bytes(data); }
  void finish_chunked() override { finish(); }
  void on_disconnect(std::function<void()> callback) override {
    client_.on_disconnect(std::move(callback));
  }
  http::StreamedExchange* stream() override { return this; }
  void abandon() override;

  http::Headers trailers() const override {
    return stream_ ? stream_->trailers() : http::Headers();
  }
  void receive(Sink sink) override;
  void hold(bool held) override;
  void expect_whole(bool expects) override {
    if (stream_ != nullptr) stream_->expect_whole(expects);
  }
  void start(http::Response head, std::optional<uint64_t> size) override;
  void switch_protocols(http::Response head) override;
  bool send_bytes(std::string_view bytes) override;
  void on_room(std::function<void()> callback) override;
  void finish() override;

 private:
  void take(std::string_view bytes);
  void end();
  void look(bool is_whole);
  // Passes on what was kept, as far as the receiver takes it.
  void give();
  bool may_give() const { return sink_.on_bytes && !is_held_ && stream_ != nullptr; }

  http::Responder client_;
  http::StreamedExchange* stream_;  // the client's; null: over
  const Admits admits_;
  const Release release_;
  Look look_;  // empty: it has seen enough
  // Itself, while it reads.
  std::shared_ptr<BegunExchange> reading_;
  std::string kept_;     // has come, and is not received yet
  size_t admitted_ = 0;  // of what is kept
  size_t given_ = 0;     // of what is kept
  size_t next_look_ = 1;
  Sink sink_;  // the receiver's
  bool is_held_ = false;
  bool is_giving_ = false;
  bool has_ended_ = false;  // nothing more comes
  bool is_over_ = false;    // and the receiver knows
};

}  // namespace lambent::frontend
