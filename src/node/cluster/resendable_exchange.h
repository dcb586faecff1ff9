// ResendableExchange: a client whose request streams, and may be sent to another node once the
// first has refused it: the beginning of its body is kept until an answer begins. Made by
// ClusterNode; loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/units.h"
#include "core/http/exchange.h"
#include "core/http/server.h"
#include "core/http/streamed_exchange.h"

namespace lambent::cluster {

// Of one body; of a longer one nothing is kept.
constexpr Bytes kMostKeptOfBody = Bytes::kib(64);
// Of all of them together.
constexpr Bytes kMostKeptBodies = Bytes::mib(64);

class ResendableExchange final : public http::Responder::Exchange,
                                 public http::StreamedExchange,
                                 public std::enable_shared_from_this<ResendableExchange> {
 public:
  // `client`: of a request that streams. `kept`: bytes that all of them keep. Both are shared: with
  // who answers the client if no node does, and with the others.
  ResendableExchange(std::shared_ptr<http::Responder> client, std::shared_ptr<size_t> kept)
      : client_(std::move(client)), kept_of_all_(std::move(kept)) {}
  ~ResendableExchange() override { release(); }

  // Whether the next receiver gets the body from its begin.
  bool may_be_resent() const { return keeps_; }
  // Its receiver begins nothing of it: what comes from now on is for the next one. False: there is
  // none to be, since the beginning is gone.
  bool refused();
  // Its receiver is gone: nothing comes until it is received again. The next receiver has not
  // stopped the client.
  void rest() {
    sink_ = {};
    is_held_ = false;
  }
  bool client_is_gone() const { return is_gone_; }
  // Who gets this answers the client for good: once it goes the client is answered or cut off.
  http::Responder hand_on();

  void send(http::Response response) override { client_->send(std::move(response)); }
  void start_chunked(http::Response head) override { start(std::move(head), std::nullopt); }
  bool send_chunk(std::string_view data) override { return send_bytes(data); }
  void finish_chunked() override { finish(); }
  void on_disconnect(std::function<void()> callback) override;
  http::StreamedExchange* stream() override { return this; }
  // A node is done with it, which is no end for the client.
  void abandon() override {}

  http::Headers trailers() const override;
  void receive(Sink sink) override;
  void hold(bool held) override;
  void expect_whole(bool expects) override;
  void start(http::Response head, std::optional<uint64_t> size) override;
  void switch_protocols(http::Response head) override;
  bool send_bytes(std::string_view bytes) override;
  void on_room(std::function<void()> callback) override;
  void finish() override;
  void end_at_half_close() override;

 private:
  void take(std::string_view bytes);
  void end();
  // Passes on what was kept, as far as the receiver takes it.
  void give();
  bool may_give() const;
  // Nothing is needed again, but for what the receiver has not got yet.
  void keep_no_more();
  void release();

  const std::shared_ptr<http::Responder> client_;
  const std::shared_ptr<size_t> kept_of_all_;
  std::string kept_;
  size_t given_ = 0;    // of it, to the receiver
  size_t counted_ = 0;  // of it, in kept_of_all_
  Sink sink_;           // the receiver's
  // Of who answers now. One that came after another is told of the same client.
  std::function<void()> disconnected_;
  bool hears_client_ = false;
  bool is_gone_ = false;
  bool keeps_ = true;
  bool is_received_ = false;
  bool is_held_ = false;
  bool is_giving_ = false;
  bool has_ended_ = false;     // nothing more comes
  bool is_end_given_ = false;  // and the receiver knows
};

}  // namespace lambent::cluster
