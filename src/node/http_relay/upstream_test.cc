#include "node/http_relay/upstream.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "core/base/time.h"

namespace lambent::http_relay {
namespace {

OwnedFd unconnected() {
  return OwnedFd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// A port at which no one listens: its socket is bound, and does not listen.
uint16_t closed_port(const OwnedFd& holder) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(holder.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(getsockname(holder.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  return ntohs(address.sin_port);
}

TEST(Upstream, ThatIsOverWhileItConnectsTellsNothing) {
  const SystemClock clock;
  loop::EventLoop loop(clock);
  const OwnedFd holder = unconnected();
  const uint16_t port = closed_port(holder);
  int told = 0;
  Upstream told_of(loop, unconnected());
  told_of.set_events({.on_connected =
                          [&](bool connected) {
                            EXPECT_FALSE(connected);
                            ++told;
                            loop.stop();
                          },
                      .on_readable = {},
                      .on_room = {}});
  Upstream over(loop, unconnected());
  over.set_events({.on_connected = [&](bool) { told += 100; }, .on_readable = {}, .on_room = {}});
  over.connect(port);
  over.set_events({});
  told_of.connect(port);
  loop.run();
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace lambent::http_relay
