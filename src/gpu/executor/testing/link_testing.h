// LinkUnderTest: lambent-device's end of a process's sockets for turns on the link, as a test plays
// it. Included by tests only; one thread, which waits for what it expects.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/packet.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/protocol/memory_codec.h"

namespace lambent::executor {

class LinkUnderTest {
 public:
  explicit LinkUnderTest(std::string path) : path_(std::move(path)) {
    auto listening = listen_packets(path_, 0600);
    CHECK(listening.ok(), "a test can listen");
    listener_ = std::move(*listening);
  }
  const std::string& path() const { return path_; }

  // The next message but for hellos, from whichever connection; none if there is none for so long.
  std::optional<protocol::MemoryMessage> hear(Duration most = seconds(30)) {
    const auto most_ms = static_cast<int>(std::chrono::ceil<milliseconds>(most).count());
    for (;;) {
      std::vector<pollfd> all = {{listener_.get(), POLLIN, 0}};
      for (const OwnedFd& client : clients_) all.push_back({client.get(), POLLIN, 0});
      if (poll(all.data(), all.size(), most_ms) <= 0) return std::nullopt;
      if (all[0].revents != 0) {
        clients_.emplace_back(
            accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      }
      for (size_t i = 1; i < all.size(); ++i) {
        if (all[i].revents == 0) continue;
        char buffer[sizeof(protocol::MemoryMessage)];
        auto packet = receive_packet(all[i].fd, buffer);
        if (!packet.ok()) {
          clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i) - 1);
          break;
        }
        if (!*packet) continue;
        const auto message = protocol::memory_message_from(std::span(buffer, (*packet)->size));
        EXPECT_TRUE(message.has_value());
        if (!message || message->kind == protocol::MemoryMessageKind::kHello) continue;
        speaker_ = all[i].fd;
        return message;
      }
    }
  }
  // Gives the turn that was heard of last.
  void grant(const protocol::MemoryMessage& wish) {
    protocol::MemoryMessage turn = wish;
    turn.kind = protocol::MemoryMessageKind::kGrantLink;
    EXPECT_TRUE(send_packet(speaker_, protocol::bytes_of(turn)).ok());
  }
  // The next message is a wish for a turn of so many bytes.
  protocol::MemoryMessage expect_wish(Bytes bytes) {
    const auto wish = hear();
    EXPECT_TRUE(wish.has_value());
    if (!wish) return {};
    EXPECT_EQ(wish->kind, protocol::MemoryMessageKind::kWantLink);
    EXPECT_EQ(Bytes(wish->bytes), bytes);
    return *wish;
  }
  void expect_done(Bytes bytes) {
    const auto done = hear();
    EXPECT_TRUE(done.has_value());
    if (!done) return;
    EXPECT_EQ(done->kind, protocol::MemoryMessageKind::kLinkDone);
    EXPECT_EQ(Bytes(done->bytes), bytes);
  }
  void hang_up() { clients_.clear(); }

 private:
  const std::string path_;
  OwnedFd listener_;
  std::vector<OwnedFd> clients_;
  int speaker_ = -1;
};

}  // namespace lambent::executor
