// StreamPair: both sides of TLS over a pair of sockets, moved in turn by the test's one thread.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include "core/base/check.h"

#include <memory>
#include <string>
#include <utility>

#include "core/tls/context.h"

namespace lambent::tls {

// Both ends are non-blocking.
inline std::pair<OwnedFd, OwnedFd> connected_sockets() {
  int ends[2];
  const int made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends);
  CHECK(made == 0, "there are sockets");
  return {OwnedFd(ends[0]), OwnedFd(ends[1])};
}

// One side: a stream, what came over it, and how the last read ended.
struct Side {
  std::unique_ptr<http::Stream> stream;
  std::string received;
  http::Transfer::Kind last = http::Transfer::Kind::kWaitsToRead;

  // Reads what can be read now; nothing after a failure.
  void receive() {
    if (has_failed()) return;
    char buffer[64 * 1024];
    for (;;) {
      const http::Transfer got = stream->read(buffer);
      last = got.kind;
      if (got.kind != http::Transfer::Kind::kMoved) return;
      received.append(buffer, got.bytes);
    }
  }
  // The number of bytes that were taken.
  size_t send(std::string_view text) {
    const iovec part = {const_cast<char*>(text.data()), text.size()};
    const http::Transfer sent = stream->write({&part, 1});
    last = sent.kind;
    return sent.bytes;
  }
  bool has_failed() const {
    return last == http::Transfer::Kind::kRefused || last == http::Transfer::Kind::kFailed;
  }
};

struct StreamPair {
  StreamPair(const ServerContext& server_context, const ClientContext& client_context,
             const std::string& host = "localhost") {
    auto [server_end, client_end] = connected_sockets();
    server.stream = server_context.encrypt(std::move(server_end), counts);
    auto made = client_context.encrypt(std::move(client_end), host);
    CHECK(made.ok(), "a client can be made for this host");
    client.stream = std::move(*made);
  }

  void turn(int times = 1) {
    for (int i = 0; i < times; ++i) {
      client.receive();
      server.receive();
    }
  }
  // Whether both sides agree.
  bool shake_hands() {
    turn(8);
    return client.stream->is_ready() && server.stream->is_ready() && !client.has_failed() &&
           !server.has_failed();
  }

  HandshakeCounts counts;  // outlives the server's stream
  Side server;
  Side client;
};

}  // namespace lambent::tls
