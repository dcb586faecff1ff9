// RawClient: a test's own end of a connection, to send what no client library would and to see
// every byte that comes back. Included by tests of several rooms; one thread.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "core/base/fd.h"

namespace lambent::http {

// A connection to a port of this machine.
inline OwnedFd connect_to(uint16_t port) {
  OwnedFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

struct RawClient {
  RawClient() = default;
  explicit RawClient(uint16_t port) : fd(connect_to(port)) {}

  // Sends all of it; for what fits into the socket's buffers.
  void send(std::string_view text) const {
    ASSERT_EQ(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Takes the bytes that have come, and notes the end.
  void receive() {
    char bytes[65536];
    for (;;) {
      const ssize_t got = recv(fd.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) ended = true;
      if (got <= 0) return;
      received.append(bytes, static_cast<size_t>(got));
    }
  }

  OwnedFd fd;
  std::string received;
  bool ended = false;
};

}  // namespace lambent::http
