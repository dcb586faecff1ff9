#include "node/worker/sandbox_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "core/base/packet.h"
#include "core/base/testing/testing.h"

namespace lambent::worker {
namespace {

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

TEST(SandboxSocket, TakesMessagesAndNoDescriptors) {
  const TemporaryFolder folder;
  const auto listener = listen_to_sandbox(folder / "socket");
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  const OwnedFd caller(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, (folder / "socket").c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(connect(caller.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_TRUE(send_packet(caller.get(), "before it is accepted").ok());
  const OwnedFd accepted(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(accepted.valid());
  char bytes[64];
  const auto packet = receive_packet(accepted.get(), bytes);
  ASSERT_TRUE(packet.ok() && packet->has_value());
  const int fds[] = {STDERR_FILENO};
  int state = 1;
  socklen_t size = sizeof(state);
  if (getsockopt(listener->get(), SOL_SOCKET, SO_PASSRIGHTS, &state, &size) != 0) {
    GTEST_SKIP() << "this kernel cannot refuse descriptors";
  }
  EXPECT_FALSE(send_packet(caller.get(), "descriptor", fds).ok());
  const OwnedFd other(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_FALSE(send_packet(other.get(), "descriptor", fds).ok()) << "nor before it is accepted";
  EXPECT_TRUE(send_packet(accepted.get(), "back", fds).ok()) << "the worker may send some";
}

}  // namespace
}  // namespace lambent::worker
